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

/** The open connections of a server. */
export interface Connections {
  /** What requests are read from: the connections or, with TLS, their decrypted streams after the handshake. */
  streams(): Iterable<Socket>;
  /** The connection under a stream with TLS, also if its handshake has failed. */
  connectionOf(stream: Socket): Socket | undefined;
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
  /** Both by the address and port of the client. */
  const connections = new Map<string, Socket>();
  const streams = new Map<string, Socket>();
  const isTls = server instanceof TlsServer;

  function add(connection: Socket, freeSlot: () => void): void {
    const client = clientOf(connection);
    connections.set(client, connection);
    if (!isTls) streams.set(client, connection);
    onCount(slots.countTaken());
    connection.once('close', () => {
      freeSlot();
      connections.delete(client);
      streams.delete(client);
      onCount(slots.countTaken());
    });
  }

  function refuse(connection: Socket, error: BursarError): void {
    onRefusal();
    connection.on('error', () => undefined);
    // With TLS a response would need a handshake first, which takes more CPU time than most requests.
    const freeRefusal = isTls ? undefined : refusals.tryTake();
    if (freeRefusal === undefined) return void connection.destroy();
    connection.once('close', freeRefusal);
    connection.resume();
    endWithError(connection, error);
  }

  const [handleConnection] = server.listeners('connection');
  if (handleConnection === undefined) throw new Error('the server has no connection listener');
  server.removeListener('connection', handleConnection as (connection: Socket) => void);
  server.on('connection', (connection: Socket) => {
    const address = connection.remoteAddress ?? '';
    const freeSlot = slots.tryTake(address);
    // Node's HTTP parser does not get the connection: a request that is refused must not be carried out.
    if (freeSlot === undefined) return refuse(connection, tooManyConnections(limits, slots.countTaken(address)));
    add(connection, freeSlot);
    handleConnection.call(server, connection);
  });
  server.on('secureConnection', (stream) => streams.set(clientOf(stream), stream));

  return {
    streams: () => streams.values(),
    connectionOf: (stream) => connections.get(clientOf(stream)),
    closeUnused() {
      for (const [client, connection] of connections)
        if ((streams.get(client)?.bytesRead ?? 0) === 0) connection.destroy();
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
