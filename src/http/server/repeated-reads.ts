import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../services/identity/actor.ts';
import type { AccessLogEntry } from './access-log.ts';
import type { RateLimits } from './rate-limits.ts';
import { createRequestBounds } from './request-bounds.ts';

/** An answer as it went out, but for what is said of each request anew. */
interface SentAnswer {
  caller: Caller;
  url: string;
  status: number;
  /** The first lines of it. */
  head: string;
  /** What is short is a text, a character for each byte: it goes out with the head in one piece. */
  body: Buffer | string;
  goodUntil: number;
}

export interface RepeatedReadsDeps {
  /** Another value after every commit to the books, by whomever; undefined where nobody can tell. */
  booksVersion: (() => unknown) | undefined;
  limits: Pick<RateLimits, 'spend'>;
  /** In epoch milliseconds, as tokens and periods end. */
  now(): number;
  /** A name for a request. */
  newRequestId(): string;
  /** Told of every answer that is given here. */
  onAnswered(answered: AccessLogEntry): void;
}

/** What is known of a request while it is worked on. */
interface Begun {
  /** What the books were when it came in. */
  version: unknown;
  /** All that was sent, a character for each byte; null when that was not it alone. */
  question: string | null;
  caller?: Caller;
}

// To import it would load all that it can hand out, `fetch` among it: 14 MB, and 30 ms of the start.
const { STATUS_CODES, validateHeaderValue } = process.getBuiltinModule('node:http');

const mostBytes = 32_000_000;
const longestQuestion = 4096;
const mostInOnePiece = 8192;
const noBody = Buffer.alloc(0);

/**
 * Reads that are repeated. Whoever sends the same bytes again, where a request begins, asks the same: as long as nobody
 * has written to the books the answer is the same too. It is sent as it was, before anybody parses the question, which
 * takes longer than all the rest. Whoever may not have it any more has lost the right by a commit, or at a time that is
 * known beforehand.
 */
export function createRepeatedReads({ booksVersion, limits, now, newRequestId, onAnswered }: RepeatedReadsDeps) {
  /** By what was asked: all of it, with the token. */
  const sent = new Map<string, SentAnswer>();
  let bytes = 0;
  let version: unknown;
  /** What a connection has just asked, until it is known as a request. */
  const questions = new WeakMap<Socket, string>();
  const begun = new WeakMap<FastifyRequest, Begun>();
  const dateAt = createHttpDate();

  function forgetWhatWasBefore(): void {
    const current = booksVersion?.();
    if (current === version) return;
    sent.clear();
    bytes = 0;
    version = current;
  }

  function answer(socket: Socket, question: string): boolean {
    const begunAt = performance.now();
    try {
      forgetWhatWasBefore();
    } catch {
      // Whoever works on it will find out what is wrong with the books, and say so.
      return false;
    }
    const known = sent.get(question);
    const at = now();
    if (known === undefined || known.goodUntil <= at) return false;
    const spent = limits.spend(known.caller);
    if (spent === null) return false;
    const id = newRequestId();
    const { url, status, head, body } = known;
    const whole = `${head}x-request-id: ${id}\r\nratelimit: ${spent}\r\nDate: ${dateAt(at)}\r\n\r\n`;
    if (typeof body === 'string') socket.write(whole + body, 'latin1');
    else {
      socket.cork();
      socket.write(whole, 'latin1');
      socket.write(body);
      socket.uncork();
    }
    onAnswered({ requestId: id, method: 'GET', url, status, ms: performance.now() - begunAt });
    return true;
  }

  return {
    /** Puts itself before the parser of every connection of a server. */
    overtake(server: Server): void {
      if (booksVersion === undefined) return;
      const underWay = new WeakMap<Socket, number>();
      server.on('request', ({ socket }, response) => {
        underWay.set(socket, (underWay.get(socket) ?? 0) + 1);
        response.once('close', () => underWay.set(socket, (underWay.get(socket) ?? 1) - 1));
      });
      server.on('connection', (socket: Socket) => {
        const [parse, ...others] = socket.listeners('data');
        // As it has been from Node 18 on. Another Node would parse everything itself.
        if (parse === undefined || others.length > 0) return;
        const bounds = createRequestBounds();
        // The first request of a connection is Node’s: it ends the time that a connection has until its first one. Nobody
        // is overtaken; whoever does not fetch their answers is left to Node, which stops reading; so is what is closing.
        const isIdle = () => underWay.get(socket) === 0 && socket.writable && socket.writableLength === 0;
        socket.removeListener('data', parse as () => void);
        socket.on('data', (piece: Buffer) => {
          questions.delete(socket);
          const question = bounds.atStart() && piece.length <= longestQuestion ? piece.toString('latin1') : null;
          if (question !== null && isIdle() && server.listening && answer(socket, question)) return;
          bounds.pass(piece);
          // It was one request, and all of it.
          if (question !== null && bounds.atStart()) questions.set(socket, question);
          parse.call(socket, piece);
        });
      });
    },

    /** Takes note of the books before anything is read for a request. */
    begin(request: FastifyRequest): void {
      if (booksVersion === undefined || request.method !== 'GET') return;
      begun.set(request, { version: booksVersion(), question: questions.get(request.raw.socket) ?? null });
    },

    /** Takes note of who is calling. */
    introduce(request: FastifyRequest, caller: Caller): void {
      const it = begun.get(request);
      if (it !== undefined) it.caller = caller;
    },

    /** Keeps an answer that is about to be sent, if it holds until some time. */
    keep(request: FastifyRequest, reply: FastifyReply, payload: unknown): void {
      const body = payload ?? noBody;
      const { version: seen, question = null, caller } = begun.get(request) ?? {};
      if (question === null || caller === undefined || !Buffer.isBuffer(body)) return;
      const goodUntil = Math.min(reply.goodUntil, caller.goodUntil);
      if (goodUntil <= now() || !mayComeAgain(request, reply) || seen !== booksVersion?.()) return;
      forgetWhatWasBefore();
      const before = sent.get(question);
      const more = sizeOf(question, { body }) - (before === undefined ? 0 : sizeOf(question, before));
      if (bytes + more > mostBytes) return;
      bytes += more;
      sent.set(question, {
        caller,
        url: request.url,
        status: reply.statusCode,
        head: headOf(request, reply, body),
        body: body.length <= mostInOnePiece ? body.toString('latin1') : body,
        goodUntil,
      });
    },
  };
}

/** What is kept of it, more or less. */
function sizeOf(question: string, { body }: Pick<SentAnswer, 'body'>): number {
  return question.length + body.length + 1000;
}

/** Of a question with a name of its own the next one has another; and after some answers the connection does not go on. */
function mayComeAgain({ raw: { headers, httpVersion } }: FastifyRequest, reply: FastifyReply): boolean {
  if ('x-request-id' in headers || 'traceparent' in headers) return false;
  if (reply.statusCode !== 200 && reply.statusCode !== 304) return false;
  const connection = headers.connection?.toLowerCase() ?? 'keep-alive';
  return httpVersion === '1.1' && connection === 'keep-alive' && !reply.hasHeader('connection');
}

/** As Node writes it. */
function headOf({ server }: FastifyRequest, reply: FastifyReply, body: Buffer): string {
  const { 'x-request-id': _id, ratelimit: _left, ...own } = reply.getHeaders();
  const length = reply.statusCode === 304 ? {} : { 'content-length': String(body.length) };
  const seconds = Math.floor(server.server.keepAliveTimeout / 1000);
  const lines = Object.entries({ ...own, ...length, Connection: 'keep-alive', 'Keep-Alive': `timeout=${seconds}` });
  for (const [name, value] of lines) validateHeaderValue(name, String(value));
  const head = [
    `HTTP/1.1 ${reply.statusCode} ${STATUS_CODES[reply.statusCode]}`,
    ...lines.map((line) => line.join(': ')),
  ];
  return `${head.join('\r\n')}\r\n`;
}

/** The date of a header, which is the same for a second. */
function createHttpDate(): (at: number) => string {
  let second = 0;
  let date = '';
  return (at) => {
    const current = Math.floor(at / 1000);
    if (current !== second) date = new Date(at).toUTCString();
    second = current;
    return date;
  };
}

declare module 'fastify' {
  interface FastifyReply {
    /** Until when, in epoch milliseconds, the same answer is right as long as nobody writes to the books; 0 for not. */
    goodUntil: number;
  }
}
