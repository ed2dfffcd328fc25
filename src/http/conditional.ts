import { hash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Versioned } from '../services/versioned.ts';
import type { AnswerCache, KeptAnswer } from './answer-cache.ts';
import { nextLink } from './list-query.ts';
import { isAmong } from './preconditions.ts';

/** Raised when the same version of the same thing is written in another way than before. */
const format = '1';

/**
 * Sends what has a version, unless the caller has it already (304) or it was built before: then it is not read at all.
 * The version was read first, so an answer is never older than its tag says.
 */
export async function sendVersioned(
  cache: AnswerCache,
  request: FastifyRequest,
  reply: FastifyReply,
  owner: string | undefined,
  { version, read }: Versioned,
): Promise<FastifyReply> {
  const tag = tagOf([format, owner ?? 'everybody', request.url, version].join(' '));
  if (isKnown(request, reply, tag)) return reply;
  reply.header('content-type', 'application/json');
  const kept = cache.get(tag);
  if (kept !== undefined) return sendKept(reply, kept);
  const answer = await read();
  if ('pieces' in answer) return reply.send(ReadableStream.from(bytesOf(answer.pieces)));
  const link = answer.next === undefined ? null : nextLink(request, answer.next);
  const built = { body: Buffer.from(answer.json), link };
  cache.put(tag, built);
  return sendKept(reply, built);
}

/** Sends JSON that had to be read anyway, unless the caller has it already. */
export function sendTagged(request: FastifyRequest, reply: FastifyReply, json: string): FastifyReply {
  if (isKnown(request, reply, tagOf(json))) return reply;
  return reply.header('content-type', 'application/json').send(Buffer.from(json));
}

function sendKept(reply: FastifyReply, { body, link }: KeptAnswer): FastifyReply {
  if (link !== null) reply.header('link', link);
  return reply.send(body);
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
  if (!isAmong(tag, request.headers['if-none-match'])) return false;
  reply.code(304).send();
  return true;
}
