import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

/** Sends JSON text as it is. */
export function sendJson(reply: FastifyReply, status: number, json: string, type = 'application/json'): FastifyReply {
  return reply.code(status).header('content-type', type).send(Buffer.from(json));
}

/** Sends only the headers. An empty stream keeps Fastify from adding a Content-Length to a HEAD response. */
export function sendEmpty(reply: FastifyReply): FastifyReply {
  return reply.send(reply.request.method === 'HEAD' ? Readable.from([]) : undefined);
}
