import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/**
 * The fault of a COMMIT:
 * `lost`: it does not reach PostgreSQL. `unanswered`: its response is lost. `late`: it reaches PostgreSQL after the client has
 * lost its connection, when `sendLateCommit` is called. `away`: its response is lost, like all other connections, and no
 * further connection is possible.
 */
export type Fault = 'lost' | 'unanswered' | 'late' | 'away';

/** A proxy between Bursar and PostgreSQL that breaks a connection during a COMMIT. */
export interface PostgresProxy {
  port: number;
  /** Breaks the next COMMIT of a transaction that sends this text. Those of background work are left alone. */
  breakCommitOf(text: string, fault: Fault): void;
  /** Continues the fault `late`. */
  sendLateCommit(): void;
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
  const lateCommit = Promise.withResolvers<void>();
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
      void breakConnection(kind, client, upstream, data);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  async function breakConnection(currentFault: Fault, client: Socket, upstream: Socket, data: Buffer): Promise<void> {
    client.removeAllListeners('data');
    client.removeAllListeners('close');
    upstream.removeAllListeners('data');
    upstream.resume();
    if (currentFault === 'lost') {
      upstream.destroy();
      client.destroy();
      return;
    }
    client.destroy();
    if (currentFault === 'late') {
      // PostgreSQL would end a transaction that waits for some seconds.
      upstream.write(queryMessage('set local idle_in_transaction_session_timeout = 0'));
      await once(upstream, 'data');
      await lateCommit.promise;
    }
    if (currentFault === 'away') {
      // Before the COMMIT, which frees the lock for which a lookup on another connection waits.
      isAway = true;
      for (const socket of sockets) if (socket !== upstream) socket.destroy();
    }
    upstream.write(data);
    await once(upstream, 'data');
    upstream.destroy();
  }
  return {
    port: (server.address() as { port: number }).port,
    breakCommitOf: (text, kind) => {
      fault = { text, kind };
    },
    sendLateCommit: () => lateCommit.resolve(),
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

function queryMessage(sql: string): Buffer {
  const text = Buffer.from(`${sql}\0`);
  const head = Buffer.from('Q\0\0\0\0');
  head.writeUInt32BE(4 + text.length, 1);
  return Buffer.concat([head, text]);
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
