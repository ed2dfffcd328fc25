import { hash } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { VersionedJson } from '../../services/versioned.ts';
import { nextLink } from '../request/list-query.ts';
import { matchesEtag } from '../request/preconditions.ts';

const maxStringLength = 8192;

/**
 * Sends JSON text as it is. Node sends a string with the headers in one write, which is cheaper for a short response. A long one
 * would be copied. Fastify adds a charset to the type of a string, unless the reply has a serializer.
 */
export function sendJson(reply: FastifyReply, status: number, json: string, type = 'application/json'): FastifyReply {
  reply.code(status).header('content-type', type);
  return json.length <= maxStringLength ? reply.serializer(String).send(json) : reply.send(Buffer.from(json));
}

/** Sends only the headers. An empty stream keeps Fastify from adding a Content-Length to a HEAD response. */
export function sendEmpty(reply: FastifyReply): FastifyReply {
  return reply.send(reply.request.method === 'HEAD' ? Readable.from([]) : undefined);
}

/** Increase it when the same version is written differently than before. */
const formatVersion = '1';

/** Sends the body, or 304 if the caller has this version. */
export async function sendVersioned(
  request: FastifyRequest,
  reply: FastifyReply,
  owner: string | undefined,
  { version, body }: VersionedJson,
): Promise<FastifyReply> {
  const etag = toEtag(`${formatVersion} ${owner ?? 'everybody'} ${request.url} ${version}`);
  if (sendNotModified(request, reply, etag)) return reply;
  const content = await body();
  if ('chunks' in content) {
    reply.header('content-type', 'application/json');
    return reply.send(Readable.from(content.chunks, { objectMode: false }));
  }
  if (content.nextAfterId !== undefined) reply.header('link', nextLink(request, content.nextAfterId));
  return sendJson(reply, 200, content.json);
}

/** Sends JSON whose entity tag is made from the text itself, or 304. */
export function sendTagged(request: FastifyRequest, reply: FastifyReply, json: string): FastifyReply {
  return sendNotModified(request, reply, toEtag(json)) ? reply : sendJson(reply, 200, json);
}

function toEtag(text: string): string {
  return `"${hash('sha256', text, 'base64url').slice(0, 22)}"`;
}

/** Sets the headers for revalidation, and sends 304 to a caller that has this entity tag. */
function sendNotModified(request: FastifyRequest, reply: FastifyReply, etag: string): boolean {
  reply.header('etag', etag).header('cache-control', 'private, no-cache');
  if (!matchesEtag(etag, request.headers['if-none-match'])) return false;
  reply.code(304).send();
  return true;
}
