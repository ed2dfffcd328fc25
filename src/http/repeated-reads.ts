import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../services/actor.ts';
import type { Answered } from './access-log.ts';
import type { RateLimits } from './rate-limits.ts';

/** An answer as it went out, but for what is said of each request anew. */
interface SentAnswer {
  status: number;
  /** Names and values in turn, which Node writes fastest. */
  headers: readonly string[];
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
  /** The name of a request, which its caller may have given. */
  requestId(given: string | string[] | undefined): string;
  /** Told of every answer that is given here. */
  onAnswered(answered: Answered): void;
}

/** What the headers of a request say that matters here. */
interface Head {
  raw: readonly string[];
  authorization: string | undefined;
  ifNoneMatch: string;
  requestId: string | string[] | undefined;
  /** As a read has them: with a host, without a body. */
  isPlain: boolean;
}

interface Connection {
  /** Of the last request: the next one mostly has the same, and need not be read anew. */
  head: Head;
  /** Who spoke last, and how they said who they are. */
  caller: Caller;
  authorization: string;
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
  /** By token, and by what was asked. */
  const sent = new Map<string, Map<string, SentAnswer>>();
  let bytes = 0;
  let version: unknown;
  const connections = new WeakMap<Socket, Connection>();
  /** What the books were when a request came in, and whose it is. */
  const begun = new WeakMap<FastifyRequest, { version: unknown; caller?: Caller }>();

  function forgetWhatWasBefore(): void {
    const current = booksVersion?.();
    if (current === version) return;
    sent.clear();
    bytes = 0;
    version = current;
  }

  function answer(request: IncomingMessage, response: ServerResponse): boolean {
    const connection = connections.get(request.socket);
    if (connection === undefined || request.method !== 'GET') return false;
    if (!isSame(connection.head.raw, request.rawHeaders)) connection.head = headOf(request);
    const { head, caller } = connection;
    if (!head.isPlain || head.authorization !== connection.authorization) return false;
    forgetWhatWasBefore();
    const known = sent.get(caller.tokenHash)?.get(questionOf(request.url, head));
    if (known === undefined || known.goodUntil <= now()) return false;
    const begunAt = performance.now();
    const spent = limits.spend(caller);
    if (spent === null) return false;
    const id = requestId(head.requestId);
    const { status, headers, body } = known;
    response.writeHead(status, headers.concat('x-request-id', id, 'ratelimit', spent));
    response.end(body);
    onAnswered({ requestId: id, method: 'GET', url: request.url ?? '', status, ms: performance.now() - begunAt });
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
      if (booksVersion !== undefined && request.method === 'GET') begun.set(request, { version: booksVersion() });
    },

    /** Takes note of who is calling. */
    introduce(request: FastifyRequest, caller: Caller): void {
      const { raw, headers } = request;
      if (headers.authorization === undefined || booksVersion === undefined) return;
      // Not that of the connection: where requests are sent without waiting for answers, the next one may be another’s.
      const it = begun.get(request);
      if (it !== undefined) it.caller = caller;
      connections.set(raw.socket, { head: headOf(raw), caller, authorization: headers.authorization });
    },

    /** Keeps an answer that is about to be sent, if it holds until some time. */
    keep(request: FastifyRequest, reply: FastifyReply, payload: unknown): void {
      const body = payload ?? noBody;
      const { version: seen, caller } = begun.get(request) ?? {};
      if (caller === undefined || reply.goodUntil === 0 || !Buffer.isBuffer(body)) return;
      if (seen !== booksVersion?.()) return;
      forgetWhatWasBefore();
      const size = body.length + request.url.length + 1000;
      if (bytes + size > mostBytes) return;
      bytes += size;
      const { status, headers } = asSent(reply, body);
      const { tokenHash } = caller;
      const goodUntil = Math.min(reply.goodUntil, caller.goodUntil);
      const short = body.length <= mostInOnePiece ? body.toString() : body;
      const answers = sent.get(tokenHash) ?? new Map<string, SentAnswer>();
      sent.set(tokenHash, answers);
      answers.set(questionOf(request.url, headOf(request.raw)), { status, headers, body: short, goodUntil });
    },
  };
}

function headOf({ rawHeaders, headers }: IncomingMessage): Head {
  return {
    raw: rawHeaders,
    authorization: headers.authorization,
    ifNoneMatch: headers['if-none-match'] ?? '',
    requestId: headers['x-request-id'],
    isPlain: headers.host !== undefined && !('content-length' in headers) && !('transfer-encoding' in headers),
  };
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  if (one.length !== other.length) return false;
  for (let index = 0; index < one.length; index++) if (one[index] !== other[index]) return false;
  return true;
}

/** What an answer depends on, beside the books and the caller. */
function questionOf(url: string | undefined, { ifNoneMatch }: Head): string {
  return ifNoneMatch === '' ? `${url}` : `${url} ${ifNoneMatch}`;
}

function asSent(reply: FastifyReply, body: Buffer): Pick<SentAnswer, 'status' | 'headers'> {
  const { 'x-request-id': _id, ratelimit: _left, ...headers } = reply.getHeaders();
  const length = reply.statusCode === 304 ? {} : { 'content-length': String(body.length) };
  const all = Object.entries({ ...(headers as Record<string, string>), ...length });
  return { status: reply.statusCode, headers: all.flat() };
}

declare module 'fastify' {
  interface FastifyReply {
    /** Until when, in epoch milliseconds, the same answer is right as long as nobody writes to the books; 0 for not. */
    goodUntil: number;
  }
}
