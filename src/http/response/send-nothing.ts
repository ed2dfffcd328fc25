import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

/** The headers alone, as they are: of anything but a stream the framework would announce the length. */
export function sendEmpty(reply: FastifyReply): FastifyReply {
  return reply.send(reply.request.method === 'HEAD' ? Readable.from([]) : undefined);
}
