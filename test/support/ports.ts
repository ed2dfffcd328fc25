import { randomInt } from 'node:crypto';
import { createServer, type ListenOptions, type Server } from 'node:net';

/**
 * Reserves free ports below the ephemeral range until this process ends: the system gives them to no client, and other tests of
 * this machine reserve others.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = randomInt(20_000, 32_000);
    if (await reserve(port)) ports.push(port);
  }
  return ports;
}

async function reserve(port: number): Promise<boolean> {
  // On Linux it is an abstract socket, which the kernel frees when this process ends, however it does.
  const lock = await listen({ path: `${process.platform === 'linux' ? '\0' : '/tmp/'}bursar-test-port-${port}` });
  if (lock === null) return false;
  const server = await listen({ host: '0.0.0.0', port });
  if (server === null) lock.close();
  else await new Promise((resolve) => server.close(resolve));
  return server !== null;
}

/** Null if the address is in use. The server does not keep this process alive. */
function listen(options: ListenOptions): Promise<Server | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(null));
    server.listen(options, () => resolve(server.unref()));
  });
}
