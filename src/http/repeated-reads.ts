import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../services/actor.ts';
import type { Answered } from './access-log.ts';
import type { RateLimits } from './rate-limits.ts';

/** An answer as it went out, but for what is said of each request anew. */
interface SentAnswer {
  status: number;
  headers: Record<string, string>;
  /** What is short is a text: it goes out with the headers in one piece. */
  body: Buffer | string;
  goodUntil: number;
}

export interface RepeatedReadsDeps {
  /** Another value after every commit to the books, by whomever; undefined where nobody can tell. */
  booksVersion: (() => unknown) | undefined;
  limits: Pick<RateLimits, 'spend'>;
  /** In epoch milliseconds, as tokens and periods end. */
  now(): number;
  requestId(request: IncomingMessage): string;
  /** Told of every answer that is given here. */
  onAnswered(answered: Answered): void;
}

const mostBytes = 32_000_000;
const mostInOnePiece = 8192;
const noBody = Buffer.alloc(0);

/**
 * Reads that are repeated. As long as nobody has written to the books, the same question of the same caller has the same
 * answer: it is sent again as it was, before the framework looks at it, which takes longer than all the rest. Whoever may
 * not have it any more has lost the right by a commit, or at a time that is known beforehand.
 */
export function createRepeatedReads({ booksVersion, limits, now, requestId, onAnswered }: RepeatedReadsDeps) {
  const sent = new Map<string, SentAnswer>();
  let bytes = 0;
  let version: unknown;
  /** Who spoke last on a connection, and how they said who they are. */
  const speakers = new WeakMap<Socket, { authorization: string; caller: Caller }>();
  const begun = new WeakMap<FastifyRequest, unknown>();

  function forgetWhatWasBefore(): void {
    const current = booksVersion?.();
    if (current === version) return;
    sent.clear();
    bytes = 0;
    version = current;
  }

  function answer(request: IncomingMessage, response: ServerResponse): boolean {
    const { headers, socket } = request;
    const speaker = speakers.get(socket);
    if (speaker === undefined || request.method !== 'GET' || speaker.authorization !== headers.authorization)
      return false;
    if (headers.host === undefined || 'content-length' in headers || 'transfer-encoding' in headers) return false;
    forgetWhatWasBefore();
    const known = sent.get(keyOf(request, speaker.caller));
    if (known === undefined || known.goodUntil <= now()) return false;
    const begunAt = performance.now();
    const spent = limits.spend(speaker.caller);
    if (spent === null) return false;
    const id = requestId(request);
    const { status, headers: fixed, body } = known;
    response.writeHead(status, { ...fixed, 'x-request-id': id, ...spent });
    response.end(body);
    const ms = performance.now() - begunAt;
    onAnswered({ requestId: id, method: 'GET', url: request.url ?? '', status, ms });
    return true;
  }

  return {
    /** Puts itself before whoever else answers the requests of a server. */
    overtake(server: Server): void {
      if (booksVersion === undefined) return;
      const [handle] = server.listeners('request');
      if (handle === undefined) throw new Error('nobody answers the requests of this server');
      server.removeListener('request', handle as () => void);
      server.on('request', (request, response) => {
        // One that is closing has more to say.
        if (!server.listening || !answer(request, response)) handle(request, response);
      });
    },

    /** Takes note of the books before anything is read for a request. */
    begin(request: FastifyRequest): void {
      if (booksVersion !== undefined && request.method === 'GET') begun.set(request, booksVersion());
    },

    /** Takes note of who is calling. */
    introduce({ raw, headers }: FastifyRequest, caller: Caller): void {
      if (headers.authorization !== undefined && booksVersion !== undefined)
        speakers.set(raw.socket, { authorization: headers.authorization, caller });
    },

    /** Keeps an answer that is about to be sent, if it holds until some time. */
    keep(request: FastifyRequest, reply: FastifyReply, payload: unknown): void {
      const speaker = speakers.get(request.raw.socket);
      const body = payload ?? noBody;
      if (speaker === undefined || reply.goodUntil === 0 || !Buffer.isBuffer(body)) return;
      if (!begun.has(request) || begun.get(request) !== booksVersion?.()) return;
      forgetWhatWasBefore();
      const size = body.length + request.url.length + 1000;
      if (bytes + size > mostBytes) return;
      bytes += size;
      const { status, headers } = asSent(reply, body);
      const goodUntil = Math.min(reply.goodUntil, speaker.caller.goodUntil);
      const short = body.length <= mostInOnePiece ? body.toString() : body;
      sent.set(keyOf(request.raw, speaker.caller), { status, headers, body: short, goodUntil });
    },
  };
}

/** What an answer depends on, beside the books. */
function keyOf({ url, headers }: IncomingMessage, { tokenHash }: Caller): string {
  return `${tokenHash} ${url} ${headers['if-none-match'] ?? ''}`;
}

function asSent(reply: FastifyReply, body: Buffer): Pick<SentAnswer, 'status' | 'headers'> {
  const { 'x-request-id': _id, ratelimit: _left, 'ratelimit-policy': _policy, ...headers } = reply.getHeaders();
  const length = reply.statusCode === 304 ? {} : { 'content-length': String(body.length) };
  return { status: reply.statusCode, headers: { ...(headers as Record<string, string>), ...length } };
}

declare module 'fastify' {
  interface FastifyReply {
    /** Until when, in epoch milliseconds, the same answer is right as long as nobody writes to the books; 0 for not. */
    goodUntil: number;
  }
}
