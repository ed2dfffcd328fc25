import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** Which bytes count: those of requests, or those of responses. */
export type Direction = 'up' | 'down';

/** A TCP proxy in front of a server that cuts connections in the middle of requests and responses. */
export interface CuttingProxy {
  url: string;
  /**
   * The next connection that carries this many bytes in this direction is reset. It carries nothing until the reset, for which
   * it waits until `when` is fulfilled. Several cuts apply one after another.
   */
  cutAfter(direction: Direction, bytes: number, when?: Promise<void>): void;
  /** The next request gets this response from the proxy, and does not reach the server. */
  respondNext(status: string, headers: Record<string, string>, body?: string): void;
  /** Cuts whose connection has not carried its bytes yet. */
  pendingCuts(): number;
  /** Resets all connections now. */
  cutAll(): void;
  /** The first lines of all requests so far, such as `GET /events/ HTTP/1.1`. */
  requests(): string[];
  close(): Promise<void>;
}

export async function startCuttingProxy(target: string): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const cuts: { direction: Direction; bytes: number; when: Promise<void> | undefined }[] = [];
  const responses: string[] = [];
  const requests: string[] = [];

  function pass(from: Socket, to: Socket, direction: Direction) {
    // Counts from the moment when the cut is the next one, whatever the connection carried before.
    let carried = 0;
    let counted = cuts[0];
    from.on('data', (chunk: Buffer) => {
      // A request begins with its own chunk. Searching all of a large body would take longer than sending it.
      const [line] = /^[A-Z]+ \/\S* HTTP\/1\.1/.exec(chunk.toString('latin1', 0, 1000)) ?? [];
      if (direction === 'up' && line !== undefined) requests.push(line);
      const response = direction === 'up' ? responses.shift() : undefined;
      if (response !== undefined) return void from.end(response);
      const [cut] = cuts;
      if (cut !== counted) [carried, counted] = [0, cut];
      carried += chunk.length;
      if (cut?.direction === direction && carried >= cut.bytes) {
        cuts.shift();
        const reset = () => {
          from.resetAndDestroy();
          to.resetAndDestroy();
        };
        if (cut.when === undefined) return reset();
        from.pause();
        return void cut.when.then(reset);
      }
      if (!to.write(chunk)) {
        from.pause();
        to.once('drain', () => from.resume());
      }
    });
    from.on('error', () => to.destroy());
    from.on('close', () => {
      sockets.delete(from);
      to.end();
    });
    sockets.add(from);
  }

  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    pass(client, upstream, 'up');
    pass(upstream, client, 'down');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cutAll = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    cutAfter: (direction, bytes, when) => cuts.push({ direction, bytes, when }),
    respondNext: (status, headers, body = '') => {
      const fields = { ...headers, 'content-length': String(Buffer.byteLength(body)), connection: 'close' };
      const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
      responses.push(`HTTP/1.1 ${status}\r\n${lines.join('')}\r\n${body}`);
    },
    pendingCuts: () => cuts.length,
    cutAll,
    requests: () => requests,
    close: async () => {
      server.close();
      cutAll();
      await once(server, 'close');
    },
  };
}
