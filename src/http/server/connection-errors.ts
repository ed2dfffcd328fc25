import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import { toProblem } from '../response/problem.ts';

const lingerMs = 1000;

/**
 * Answers what never became a request, or broke off while being one: headers too large, not HTTP, too slow. A
 * response that is under way on the same connection, to a request that arrived whole, goes first.
 */
export function connectionErrors(log: FastifyBaseLogger) {
  const underWay = new WeakMap<Socket, ServerResponse>();
  const answered = new WeakSet<Socket>();

  function answer(error: NodeJS.ErrnoException, socket: Socket): void {
    // The rest of what was refused.
    if (answered.has(socket)) return;
    const response = underWay.get(socket);
    if (response !== undefined && !response.writableFinished && response.req.complete) {
      response.once('close', () => socket.destroySoon());
      return;
    }
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    const requestId = randomUUID();
    // Not the error itself: it carries the bytes that were received, and a token may be among them.
    log.info({ reqId: requestId, code: error.code, reason: error.message }, 'connection refused');
    const { status, body } = toProblem(asBursarError(error), requestId);
    const head = [
      `HTTP/1.1 ${status} `,
      'content-type: application/problem+json',
      `content-length: ${Buffer.byteLength(body)}`,
      `x-request-id: ${requestId}`,
      'connection: close',
    ];
    answered.add(socket);
    socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
    // Who is still sending when the connection is closed would hear of that, and not read the answer.
    const closing = setTimeout(() => socket.destroy(), lingerMs);
    socket.once('close', () => clearTimeout(closing));
  }

  function refuseExpectation(request: IncomingMessage, response: ServerResponse): void {
    const requestId = randomUUID();
    const asked = String(request.headers.expect).slice(0, 64);
    const error = new BursarError('expectation_failed', `"Expect: ${asked}" is not supported. Leave it out.`);
    const { status, body } = toProblem(error, requestId);
    log.info({ reqId: requestId, method: request.method, status }, 'expectation refused');
    response.writeHead(status, { 'content-type': 'application/problem+json', 'x-request-id': requestId });
    response.end(body);
  }

  return {
    answer,
    refuseExpectation,
    /** Remembers the response that a connection is waiting for. */
    track: (response: ServerResponse) => {
      if (response.socket !== null) underWay.set(response.socket, response);
    },
  };
}

function asBursarError(cause: NodeJS.ErrnoException): BursarError {
  if (cause.code === 'HPE_HEADER_OVERFLOW') {
    return new BursarError('headers_too_large', 'The headers are over 16 KiB in all. Shorten the Payload.', { cause });
  }
  if (cause.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new BursarError('timeout', 'The request took too long to arrive. Try again.', { cause });
  }
  return new BursarError('bad_request', 'This is not a well-formed HTTP request. Send one; /docs/ shows how.', {
    cause,
  });
}
