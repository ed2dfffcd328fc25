import type { FastifyInstance } from 'fastify';

const idleCheckMs = 100;

/** Waits for the requests in progress. After `drainMs` their connections are closed. */
export async function closeServer(app: FastifyInstance, drainMs: number): Promise<void> {
  const deadline = setTimeout(() => app.server.closeAllConnections(), drainMs);
  // A response that began before has no `Connection: close`, so its keep-alive connection becomes idle after it.
  const idleCheck = setInterval(() => app.server.closeIdleConnections(), idleCheckMs);
  await app.close();
  clearInterval(idleCheck);
  clearTimeout(deadline);
}
