import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import type { FastifyReply } from 'fastify';
import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import { createSlots } from '../../domain/slots.ts';
import type { Metrics } from '../../metrics/metrics.ts';

/** Requests that last, and hold memory, a file or a command meanwhile. */
export type OpenRequestKind = 'upload' | 'download' | 'log_follower' | 'event_listener';

export type OpenRequestLimits = Record<OpenRequestKind, { perUser: number; total: number }>;

interface Wording {
  code: ErrorCode;
  /** After "You have 5 open" or "The server has 5 open". */
  noun: string;
  advice: string;
  retryAfterSeconds: number;
}

const wordings: Record<OpenRequestKind, Wording> = {
  upload: {
    code: 'too_many_requests',
    noun: 'submissions that are still arriving',
    advice: 'Wait until one has arrived.',
    retryAfterSeconds: 1,
  },
  download: {
    code: 'too_many_requests',
    noun: 'downloads',
    advice: 'Wait until one has finished.',
    retryAfterSeconds: 5,
  },
  log_follower: {
    code: 'too_many_listeners',
    noun: 'requests that follow a log',
    advice: 'Close some of them.',
    retryAfterSeconds: 60,
  },
  event_listener: {
    code: 'too_many_listeners',
    noun: 'event streams and long polls',
    advice: 'Close some of them.',
    // A long poll, the shortest of them, ends after a minute at the latest.
    retryAfterSeconds: 60,
  },
};

export type CountOpenRequest = ReturnType<typeof createOpenRequests>;

/** Bounds the requests that are open at the same time, by user and in all. Each instance counts for itself. */
export function createOpenRequests(limits: OpenRequestLimits, metrics: Pick<Metrics, 'setGauge' | 'increment'>) {
  const createKind = (kind: OpenRequestKind) => {
    const { perUser, total } = limits[kind];
    const slots = createSlots({ perKey: perUser, total });
    const count = () => metrics.setGauge('bursar_open_requests', { kind }, slots.countTaken());
    count();
    return { slots, count };
  };
  const kinds = {
    upload: createKind('upload'),
    download: createKind('download'),
    log_follower: createKind('log_follower'),
    event_listener: createKind('event_listener'),
  };

  /**
   * Counts a request of a user until the response has been sent, or its client has disconnected. Throws 429 if the user has
   * reached the limit, and `server_busy` if all users together have.
   */
  return (kind: OpenRequestKind, userId: string, { raw: response }: FastifyReply): void => {
    // The client may have disconnected while the token was checked: then there is no `close` to come.
    const { socket } = response;
    if (response.destroyed || socket === null) return;
    const { slots, count } = kinds[kind];
    const free = slots.tryTake(userId);
    if (free === undefined) {
      metrics.increment('bursar_refused_requests_total', { kind });
      throw tooManyOpen(kind, limits[kind], slots.countTaken(userId));
    }
    count();
    const sentBefore = socket.bytesWritten;
    response.once('close', () => {
      free();
      count();
      if (kind === 'download') metrics.increment('bursar_download_bytes_total', {}, socket.bytesWritten - sentBefore);
    });
  };
}

function tooManyOpen(kind: OpenRequestKind, { perUser, total }: { perUser: number; total: number }, ofUser: number) {
  const { code, noun, advice, retryAfterSeconds } = wordings[kind];
  const options = { transient: true, retryAfterSeconds };
  if (ofUser >= perUser)
    return new BursarError(code, `You have ${perUser} open ${noun}, which is the limit. ${advice}`, options);
  const message = `The server has ${total} open ${noun} of all users, which is the limit. Try again later.`;
  return new BursarError('server_busy', message, options);
}

export interface Connection {
  socket: Socket;
  /** Carries the requests: the socket itself or, with TLS, its decrypted stream after the handshake. */
  stream: Socket | undefined;
}

/** More refused connections than this are closed without a response: each needs a file descriptor for a moment. */
const maxRefusals = 100;

/** Clients that were refused wait this long. */
const retryAfterSeconds = 10;

/**
 * Limits the open connections of a server. Half of them can come from one address. `endWithError` sends an error on a connection without a
 * request, and closes it.
 */
export function limitConnections(
  server: Server,
  maxConnections: number,
  metrics: Pick<Metrics, 'setGauge' | 'increment'>,
  endWithError: (socket: Socket, error: BursarError) => void,
) {
  const maxOfAddress = Math.ceil(maxConnections / 2);
  const slots = createSlots({ total: maxConnections, perKey: maxOfAddress });
  const refusals = createSlots({ total: maxRefusals });
  /** By the address and port of the client. */
  const connections = new Map<string, Connection>();
  const isTls = server instanceof TlsServer;
  const count = () => metrics.setGauge('bursar_connections', {}, slots.countTaken());

  function add(socket: Socket, freeSlot: () => void): void {
    const client = clientOf(socket);
    connections.set(client, { socket, stream: isTls ? undefined : socket });
    count();
    socket.once('close', () => {
      freeSlot();
      // A client that has reset a connection may already have opened another one from the same port.
      if (connections.get(client)?.socket === socket) connections.delete(client);
      count();
    });
  }

  function refuse(socket: Socket, error: BursarError): void {
    metrics.increment('bursar_connections_cut_total', { reason: 'too_many_connections' });
    socket.on('error', () => undefined);
    // With TLS a response would need a handshake first, which takes more CPU time than most requests.
    const freeRefusal = isTls ? undefined : refusals.tryTake();
    if (freeRefusal === undefined) return void socket.destroy();
    socket.once('close', freeRefusal);
    socket.resume();
    endWithError(socket, error);
  }

  const [handleConnection] = server.listeners('connection');
  if (handleConnection === undefined) throw new Error('the server has no connection listener');
  server.removeListener('connection', handleConnection as (socket: Socket) => void);
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    const freeSlot = slots.tryTake(address);
    // Node's HTTP parser does not get the connection: a request that is refused must not be carried out.
    if (freeSlot === undefined) return refuse(socket, tooManyConnections(maxOfAddress, slots.countTaken(address)));
    add(socket, freeSlot);
    handleConnection.call(server, socket);
  });
  server.on('secureConnection', (stream: Socket) => {
    const connection = connections.get(clientOf(stream));
    if (connection !== undefined) connection.stream = stream;
  });

  return {
    open: () => connections.values(),
    /** The socket under a stream with TLS, even if its handshake has failed. */
    socketOf: (stream: Socket) => connections.get(clientOf(stream))?.socket,
    /** Closes the connections that have not begun a request: browsers open some in advance, and may never use them. */
    closeUnused() {
      for (const { socket, stream } of connections.values()) if ((stream?.bytesRead ?? 0) === 0) socket.destroy();
    },
  };
}

const clientOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;

function tooManyConnections(maxOfAddress: number, ofAddress: number): BursarError {
  const options = { transient: true, retryAfterSeconds };
  if (ofAddress >= maxOfAddress) {
    const message = `Your address has ${ofAddress} open connections, which is the limit. Close some of them.`;
    return new BursarError('too_many_requests', message, options);
  }
  return new BursarError('server_busy', 'The server has no connection left. Try again later.', options);
}
