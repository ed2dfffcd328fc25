import { hash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { JsonBody, VersionedJson } from '../../services/versioned.ts';
import { nextLink } from '../request/list-query.ts';
import { matchesEtag } from '../request/preconditions.ts';
import type { CachedResponse, ResponseCache } from './response-cache.ts';

/** Raised when the same version of the same thing is written in another way than before. */
const format = '1';

/**
 * Sends what has a version, unless the caller has it already (304). What was sent before is read again only when its
 * version is not the same any more; that and the reading are one look, so an answer is never older than its tag says.
 */
export async function sendVersioned(
  cache: ResponseCache,
  request: FastifyRequest,
  reply: FastifyReply,
  owner: string | undefined,
  read: (knownVersion: string | undefined) => Promise<VersionedJson>,
): Promise<FastifyReply> {
  const subject = `${owner ?? 'everybody'} ${request.url}`;
  const kept = cache.get(subject);
  const { version, answer, goodUntil = Number.POSITIVE_INFINITY } = await read(kept?.version);
  reply.goodUntil = goodUntil;
  const current = answer === null && kept !== undefined ? kept : keptAnswer(request, subject, version, answer);
  if (current !== kept) cache.put(subject, current);
  if (isKnown(request, reply, current.tag)) return reply;
  reply.header('content-type', 'application/json');
  if (current.link !== null) reply.header('link', current.link);
  if (current.body !== null) return reply.send(current.body);
  // It is long. Who is known to have it does not make us read it; anybody else does.
  const long = answer ?? (await read(undefined)).answer;
  return reply.send(long !== null && 'pieces' in long ? ReadableStream.from(bytesOf(long.pieces)) : long?.json);
}

function keptAnswer(
  request: FastifyRequest,
  subject: string,
  version: string,
  answer: JsonBody | null,
): CachedResponse {
  const tag = tagOf(`${format} ${subject} ${version}`);
  if (answer === null || 'pieces' in answer) return { version, tag, body: null, link: null };
  const link = answer.next === undefined ? null : nextLink(request, answer.next);
  return { version, tag, body: utf8(answer.json), link };
}

/** Sends JSON that had to be read anyway, unless the caller has it already. */
export function sendTagged(request: FastifyRequest, reply: FastifyReply, json: string): FastifyReply {
  reply.goodUntil = Number.POSITIVE_INFINITY;
  if (isKnown(request, reply, tagOf(json))) return reply;
  return reply.header('content-type', 'application/json').send(Buffer.from(json));
}

const encoder = new TextEncoder();

/** As `Buffer.from`, which goes through a text twice: most have as many bytes as characters, and fit at once. */
function utf8(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(text.length);
  return encoder.encodeInto(text, bytes).read === text.length ? bytes : Buffer.from(text);
}

async function* bytesOf(pieces: AsyncIterable<string>): AsyncGenerator<Buffer> {
  for await (const piece of pieces) yield Buffer.from(piece);
}

function tagOf(text: string): string {
  return `"${hash('sha256', text, 'base64url').slice(0, 22)}"`;
}

/** Answers 304 to whoever has what this tag stands for; and lets nobody keep an answer without asking again. */
function isKnown(request: FastifyRequest, reply: FastifyReply, tag: string): boolean {
  reply.header('etag', tag).header('cache-control', 'private, no-cache');
  if (!matchesEtag(tag, request.headers['if-none-match'])) return false;
  reply.code(304).send();
  return true;
}
