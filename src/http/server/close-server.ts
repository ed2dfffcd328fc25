import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

const sweepMs = 100;

/** Sees to it that a server can be closed without waiting for anybody who is waiting for nothing. */
export function prepareToClose(app: FastifyInstance): void {
  const unused = new Set<Socket>();
  app.server.on('connection', (socket: Socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  app.server.on('request', ({ socket }) => unused.delete(socket));
  app.addHook('preClose', async () => {
    // Browsers connect ahead of need: a request on these may never come.
    for (const socket of unused) if (socket.bytesRead === 0) socket.destroy();
  });
}

/** Waits for the requests under way, but not for ever: then their connections are cut. */
export async function closeServer(app: FastifyInstance, drainMs: number): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), drainMs);
  // Of an answer that began before, nobody has said that it is the last on its connection.
  const sweep = setInterval(() => app.server.closeIdleConnections(), sweepMs);
  await app.close();
  clearInterval(sweep);
  clearTimeout(cut);
}
