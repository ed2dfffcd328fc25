import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import { toProblem } from '../response/problem.ts';

const lingerMs = 1000;

/**
 * Responds to requests that cannot be parsed: headers too large, not HTTP, too slow. If a response to an earlier,
 * complete request is in progress on the same connection (`responses`), it is sent first. `socketOf` finds the socket under a
 * stream with TLS whose handshake has failed.
 */
export function createConnectionErrorHandler(
  log: FastifyBaseLogger,
  responses: WeakMap<Socket, ServerResponse>,
  socketOf: (stream: Socket) => Socket | undefined,
) {
  const rejected = new WeakSet<Socket>();

  function rejectRequest(error: NodeJS.ErrnoException, socket: Socket): void {
    // More bytes of a request that was rejected already.
    if (rejected.has(socket)) return;
    const response = responses.get(socket);
    if (response !== undefined && !response.writableFinished && response.req.complete) {
      response.once('close', () => socket.destroySoon());
      return;
    }
    const plainSocket = error.code === 'ERR_SSL_HTTP_REQUEST' ? socketOf(socket) : undefined;
    if (plainSocket?.writable) {
      // The client of a request without TLS to a port with TLS understands a response without TLS.
      plainSocket.on('error', () => undefined);
      plainSocket.resume();
      const message = 'This port needs TLS. Use https:// instead of http://.';
      reject(plainSocket, new BursarError('bad_request', message), {}, 'request without TLS rejected');
      return;
    }
    // There is no response to a failed handshake: TLS has sent its alert.
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    // The error itself is not logged: it has the received bytes, which may include a token.
    const { code, message: reason } = error;
    rejected.add(socket);
    reject(socket, toParseError(error), { code, reason }, 'malformed request rejected');
  }

  function reject(socket: Socket, error: BursarError, fields: object, message: string): void {
    const reqId = randomUUID();
    const status = endWithProblem(socket, error, reqId);
    log.info({ address: socket.remoteAddress, reqId, status, ...fields }, message);
  }

  return rejectRequest;
}

/**
 * Sends a problem on a connection without a request that Node could respond to, and closes the connection. Returns the
 * status.
 */
export function endWithProblem(socket: Socket, error: BursarError, requestId: string): number {
  const { status, body } = toProblem(error, requestId);
  const head = [
    `HTTP/1.1 ${status} `,
    'content-type: application/problem+json',
    `content-length: ${Buffer.byteLength(body)}`,
    'x-content-type-options: nosniff',
    `x-request-id: ${requestId}`,
    ...(error.retryAfterSeconds === undefined ? [] : [`retry-after: ${error.retryAfterSeconds}`]),
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  // A client that is still sending would get a reset instead of the response if the connection were closed now.
  const closeTimer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(closeTimer));
  return status;
}

function toParseError(cause: NodeJS.ErrnoException): BursarError {
  if (cause.code === 'HPE_HEADER_OVERFLOW') {
    const message = 'The headers are larger than 16 KiB in total. Shorten the Payload.';
    return new BursarError('headers_too_large', message, { cause });
  }
  if (cause.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new BursarError('timeout', 'The request took too long to arrive. Try again.', { cause });
  }
  const message = 'This is not a well-formed HTTP request. See /docs/ for examples.';
  return new BursarError('bad_request', message, { cause });
}

const maxDrainBytes = 256_000_000;

/**
 * Reads and discards the rest of the body of a rejected request, up to a time and a size limit. Many clients read the
 * response only after they have sent everything, and would lose it if the connection were closed before.
 */
export async function drainBody(request: IncomingMessage, timeoutMs: number): Promise<void> {
  if (request.complete || request.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxDrainBytes) resolve();
  });
  for (const event of ['end', 'close', 'error']) request.once(event, resolve);
  request.resume();
  await promise;
  clearTimeout(timer);
}
