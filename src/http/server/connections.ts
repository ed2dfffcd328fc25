import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { type TLSSocket, Server as TlsServer } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import { endWithProblem, transportOf } from './connection-errors.ts';
import { createSlowReaderCheck, type SlowReaderLimits } from './slow-readers.ts';

export interface ConnectionLimits extends SlowReaderLimits {
  /** Maximum open connections, in all and from one address. */
  connections: number;
  addressConnections: number;
}

export interface ConnectionDeps {
  limits: ConnectionLimits;
  log: { info(fields: object, message: string): void };
  /** Called when a connection was opened or closed. */
  onCount(connections: number): void;
  /** Called when a connection was refused, or closed because its client reads too slowly. */
  onCut(reason: 'too_many_connections' | 'slow_reader'): void;
}

/** More refused connections than this are closed without a response: each needs a file descriptor for a moment. */
const maxRefusals = 100;

/** Clients that were refused wait this long. */
const retryAfterSeconds = 10;

/** Bounds the open connections, disconnects slow readers, and closes unused connections when the server closes. */
export function superviseConnections(app: FastifyInstance, { limits, log, onCount, onCut }: ConnectionDeps): void {
  const sockets = new Set<Socket>();
  /** The decrypted streams of sockets with TLS, after the handshake. */
  const streams = new WeakMap<Socket, TLSSocket>();
  const countByAddress = new Map<string, number>();
  let refusals = 0;

  function add(socket: Socket, address: string): void {
    sockets.add(socket);
    countByAddress.set(address, (countByAddress.get(address) ?? 0) + 1);
    onCount(sockets.size);
    socket.once('close', () => {
      sockets.delete(socket);
      const rest = (countByAddress.get(address) ?? 1) - 1;
      if (rest === 0) countByAddress.delete(address);
      else countByAddress.set(address, rest);
      onCount(sockets.size);
    });
  }

  const { server } = app;
  const isTls = server instanceof TlsServer;
  const [handleConnection] = server.listeners('connection');
  if (handleConnection === undefined) throw new Error('the server has no connection listener');
  server.removeListener('connection', handleConnection as (socket: Socket) => void);
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    const error = findExcess(limits, sockets.size, countByAddress.get(address) ?? 0);
    if (error === undefined) {
      add(socket, address);
      handleConnection.call(server, socket);
      return;
    }
    // Node's HTTP parser does not get the connection: a request that is refused must not be carried out.
    onCut('too_many_connections');
    socket.on('error', () => undefined);
    // With TLS a response would need a handshake first, which takes more CPU time than most requests.
    if (isTls || refusals >= maxRefusals) return void socket.destroy();
    refusals += 1;
    socket.once('close', () => {
      refusals -= 1;
    });
    socket.resume();
    endWithProblem(socket, error, randomUUID());
  });

  server.on('secureConnection', (stream: TLSSocket) => {
    const socket = transportOf(stream);
    if (socket !== undefined) streams.set(socket, stream);
  });

  const findSlowReaders = createSlowReaderCheck(limits, (socket) => streams.get(socket));
  const checkMs = limits.windowMs / 10;
  /** How long the server was able to send. While its event loop is blocked, no client can take anything. */
  let sendingMs = 0;
  let checkedAt = performance.now();
  const check = setInterval(() => {
    const now = performance.now();
    sendingMs += Math.min(now - checkedAt, 2 * checkMs);
    checkedAt = now;
    for (const socket of findSlowReaders(sockets, sendingMs)) {
      onCut('slow_reader');
      log.info({ address: socket.remoteAddress }, 'client disconnected: it reads its response too slowly');
      socket.destroy();
    }
  }, checkMs);
  check.unref();

  app.addHook('preClose', async () => {
    // Browsers open connections in advance, and may never send a request on them.
    for (const socket of sockets) {
      const stream = isTls ? streams.get(socket) : socket;
      if (stream === undefined || stream.bytesRead === 0) socket.destroy();
    }
  });
  app.addHook('onClose', async () => clearInterval(check));
}

function findExcess(limits: ConnectionLimits, inAll: number, ofAddress: number): BursarError | undefined {
  const options = { transient: true, retryAfterSeconds };
  if (ofAddress >= limits.addressConnections) {
    const message = `Your address has ${ofAddress} open connections, which is the limit. Close some of them.`;
    return new BursarError('too_many_requests', message, options);
  }
  if (inAll < limits.connections) return undefined;
  return new BursarError('server_busy', 'The server has no connection left. Try again later.', options);
}
