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

/**
 * Sends the result of a handler: JSON text as it is, everything else as JSON. Without a result, the handler has sent the response.
 * With `isTagged` the response has an entity tag, and is 304 for a caller that has this version.
 */
export async function sendResult(
  request: FastifyRequest,
  reply: FastifyReply,
  result: unknown,
  isTagged: boolean,
): Promise<unknown> {
  if (isTagged && result !== undefined) return await sendTagged(request, reply, result as string | VersionedJson);
  return typeof result === 'string' ? sendJson(reply, reply.statusCode, result) : result;
}

/** The entity tag of a text is made from the text itself. */
async function sendTagged(request: FastifyRequest, reply: FastifyReply, result: string | VersionedJson) {
  const { caller, url, headers } = request;
  const version = typeof result === 'string' ? result : `${formatVersion} ${caller?.userId} ${url} ${result.version}`;
  const etag = `"${hash('sha256', version, 'base64url').slice(0, 22)}"`;
  reply.header('etag', etag).header('cache-control', 'private, no-cache');
  if (matchesEtag(etag, headers['if-none-match'])) return reply.code(304).send();
  if (typeof result === 'string') return sendJson(reply, 200, result);
  const content = await result.body();
  if ('chunks' in content) {
    reply.header('content-type', 'application/json');
    return reply.send(Readable.from(content.chunks, { objectMode: false }));
  }
  if (content.nextAfterId !== undefined) reply.header('link', nextLink(request, content.nextAfterId));
  return sendJson(reply, 200, content.json);
}
