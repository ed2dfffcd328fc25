import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * What happens to the next COMMIT: it is lost on its way, or its answer is, or it arrives late while its sender already
 * hears nothing more, or its answer is lost and nobody gets through any more.
 */
export type Fault = 'lost' | 'unanswered' | 'late' | 'away';

/** Stands between Bursar and PostgreSQL, and breaks connections at the one moment that matters. */
export interface PostgresProxy {
  port: number;
  breakNextCommit(fault: Fault): void;
  /** Resolves once it has happened. */
  waitForFault(): Promise<void>;
  /** How often something was asked and waited for, on all connections so far. */
  roundTrips(): number;
  /** Lets connections through again. */
  acceptConnections(): void;
  close(): Promise<void>;
}

export async function startProxy(port: number): Promise<PostgresProxy> {
  const sockets = new Set<Socket>();
  let fault: Fault | null = null;
  let away = false;
  let happened = Promise.withResolvers<void>();
  let asked = 0;

  const server = createServer((client) => {
    if (away) return void client.destroy();
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
    const questions = countQuestions();
    client.on('data', (data) => {
      asked += questions(data);
      if (fault === null || !/commit\0/i.test(data.toString('latin1'))) return void upstream.write(data);
      const what = fault;
      fault = null;
      void breakOff(what, client, upstream, data).then(happened.resolve);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  async function breakOff(what: Fault, client: Socket, upstream: Socket, data: Buffer): Promise<void> {
    client.removeAllListeners('data');
    client.removeAllListeners('close');
    upstream.removeAllListeners('data');
    upstream.resume();
    if (what === 'away') away = true;
    if (what === 'lost') {
      upstream.destroy();
      client.destroy();
      return;
    }
    client.destroy();
    if (what === 'late') await sleep(2000);
    upstream.write(data);
    await once(upstream, 'data');
    upstream.destroy();
    if (what === 'away') for (const socket of sockets) socket.destroy();
  }
  return {
    port: (server.address() as { port: number }).port,
    breakNextCommit: (what) => {
      fault = what;
      happened = Promise.withResolvers();
    },
    waitForFault: () => happened.promise,
    roundTrips: () => asked,
    acceptConnections: () => {
      away = false;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/**
 * Counts what a client waits for an answer to: a simple query, or the Sync after which the server answers all that came
 * before it. The very first message has no type.
 */
function countQuestions(): (data: Buffer) => number {
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
