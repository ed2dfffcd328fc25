import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

const idleCheckMs = 100;

/** Closes connections on which no request was ever sent as soon as the server starts to close. */
export function prepareToClose(app: FastifyInstance): void {
  const sockets = new Set<Socket>();
  app.server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  app.addHook('preClose', async () => {
    // Browsers open connections in advance, and may never send a request on them.
    for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  });
}

/** Waits for the requests in progress. After `drainMs` their connections are closed. */
export async function closeServer(app: FastifyInstance, drainMs: number): Promise<void> {
  const deadline = setTimeout(() => app.server.closeAllConnections(), drainMs);
  // A response that began before has no `Connection: close`, so its keep-alive connection becomes idle after it.
  const idleCheck = setInterval(() => app.server.closeIdleConnections(), idleCheckMs);
  await app.close();
  clearInterval(idleCheck);
  clearTimeout(deadline);
}
