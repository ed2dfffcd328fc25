import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import { BursarError } from '../../domain/errors.ts';
import { createSlots } from '../../domain/slots.ts';

export interface ConnectionLimits {
  /** Maximum open connections, in all and from one address. */
  connections: number;
  addressConnections: number;
}

export interface ConnectionDeps {
  limits: ConnectionLimits;
  /** Called when a connection was opened or closed. */
  onCount(connections: number): void;
  onRefusal(): void;
  /** Sends an error on a connection without a request, and closes it. */
  endWithError(socket: Socket, error: BursarError): void;
}

export interface Connection {
  socket: Socket;
  /** What requests are read from: the socket or, with TLS, its decrypted stream after the handshake. */
  stream: Socket | undefined;
}

/** The open connections of a server. */
export interface Connections {
  open(): Iterable<Connection>;
  /** The socket under a stream with TLS, also if its handshake has failed. */
  socketOf(stream: Socket): Socket | undefined;
  /** Closes the connections that have not begun a request: browsers open some in advance, and may never use them. */
  closeUnused(): void;
}

/** More refused connections than this are closed without a response: each needs a file descriptor for a moment. */
const maxRefusals = 100;

/** Clients that were refused wait this long. */
const retryAfterSeconds = 10;

/** Limits the open connections, in all and by address. */
export function limitConnections(server: Server, deps: ConnectionDeps): Connections {
  const { limits, onCount, onRefusal, endWithError } = deps;
  const slots = createSlots({ total: limits.connections, perKey: limits.addressConnections });
  const refusals = createSlots({ total: maxRefusals });
  /** By the address and port of the client. */
  const connections = new Map<string, Connection>();
  const isTls = server instanceof TlsServer;

  function add(socket: Socket, freeSlot: () => void): void {
    const client = clientOf(socket);
    connections.set(client, { socket, stream: isTls ? undefined : socket });
    onCount(slots.countTaken());
    socket.once('close', () => {
      freeSlot();
      // A client that has reset a connection may already have opened another one from the same port.
      if (connections.get(client)?.socket === socket) connections.delete(client);
      onCount(slots.countTaken());
    });
  }

  function refuse(socket: Socket, error: BursarError): void {
    onRefusal();
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
    if (freeSlot === undefined) return refuse(socket, tooManyConnections(limits, slots.countTaken(address)));
    add(socket, freeSlot);
    handleConnection.call(server, socket);
  });
  server.on('secureConnection', (stream: Socket) => {
    const connection = connections.get(clientOf(stream));
    if (connection !== undefined) connection.stream = stream;
  });

  return {
    open: () => connections.values(),
    socketOf: (stream) => connections.get(clientOf(stream))?.socket,
    closeUnused() {
      for (const { socket, stream } of connections.values()) if ((stream?.bytesRead ?? 0) === 0) socket.destroy();
    },
  };
}

const clientOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;

function tooManyConnections({ addressConnections }: ConnectionLimits, ofAddress: number): BursarError {
  const options = { transient: true, retryAfterSeconds };
  if (ofAddress >= addressConnections) {
    const message = `Your address has ${ofAddress} open connections, which is the limit. Close some of them.`;
    return new BursarError('too_many_requests', message, options);
  }
  return new BursarError('server_busy', 'The server has no connection left. Try again later.', options);
}
