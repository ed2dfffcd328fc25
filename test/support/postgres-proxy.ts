import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * The fault of a COMMIT:
 * `lost`: it does not reach PostgreSQL. `unanswered`: its response is lost. `late`: it reaches PostgreSQL two seconds after
 * the client has lost its connection. `away`: its response is lost, and no further connection is possible.
 */
export type Fault = 'lost' | 'unanswered' | 'late' | 'away';

/** A proxy between Bursar and PostgreSQL that breaks a connection during a COMMIT. */
export interface PostgresProxy {
  port: number;
  /** Breaks the next COMMIT of a transaction that sends this text. Those of background work are left alone. */
  breakCommitOf(text: string, fault: Fault): void;
  /** Resolves when the fault has happened. */
  waitForFault(): Promise<void>;
  /** The number of round trips on all connections so far. */
  roundTrips(): number;
  /** Ends the fault `away`. */
  acceptConnections(): void;
  close(): Promise<void>;
}

export async function startProxy(port: number): Promise<PostgresProxy> {
  const sockets = new Set<Socket>();
  let fault: { text: string; kind: Fault } | null = null;
  let isAway = false;
  let faultHappened = Promise.withResolvers<void>();
  let roundTripCount = 0;

  const server = createServer((client) => {
    if (isAway) return void client.destroy();
    const upstream = connect(port, '127.0.0.1');
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.end();
      });
    }
    upstream.on('data', (data) => client.write(data));
    const countIn = createRoundTripCounter();
    let transaction = '';
    client.on('data', (data) => {
      roundTripCount += countIn(data);
      const text = data.toString('latin1');
      transaction = /\bbegin\b/i.test(text) ? text : transaction + text;
      if (fault === null || !/commit\0/i.test(text) || !transaction.includes(fault.text))
        return void upstream.write(data);
      const { kind } = fault;
      fault = null;
      void breakConnection(kind, client, upstream, data).then(faultHappened.resolve);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  async function breakConnection(currentFault: Fault, client: Socket, upstream: Socket, data: Buffer): Promise<void> {
    client.removeAllListeners('data');
    client.removeAllListeners('close');
    upstream.removeAllListeners('data');
    upstream.resume();
    if (currentFault === 'away') isAway = true;
    if (currentFault === 'lost') {
      upstream.destroy();
      client.destroy();
      return;
    }
    client.destroy();
    if (currentFault === 'late') await sleep(2000);
    upstream.write(data);
    await once(upstream, 'data');
    upstream.destroy();
    if (currentFault === 'away') for (const socket of sockets) socket.destroy();
  }
  return {
    port: (server.address() as { port: number }).port,
    breakCommitOf: (text, kind) => {
      fault = { text, kind };
      faultHappened = Promise.withResolvers();
    },
    waitForFault: () => faultHappened.promise,
    roundTrips: () => roundTripCount,
    acceptConnections: () => {
      isAway = false;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/**
 * Counts the messages that PostgreSQL answers: Query, and Sync, which ends a series of other messages. The first message
 * of a connection has no type.
 */
function createRoundTripCounter(): (data: Buffer) => number {
  let rest = Buffer.alloc(0);
  let isFirst = true;
  return (data) => {
    rest = Buffer.concat([rest, data]);
    let count = 0;
    for (;;) {
      const typeBytes = isFirst ? 0 : 1;
      if (rest.length < typeBytes + 4) return count;
      const end = typeBytes + rest.readUInt32BE(typeBytes);
      if (rest.length < end) return count;
      if (!isFirst && (rest[0] === 0x51 || rest[0] === 0x53)) count++;
      isFirst = false;
      rest = rest.subarray(end);
    }
  };
}
