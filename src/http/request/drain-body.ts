import type { IncomingMessage } from 'node:http';

const maxDrainBytes = 256_000_000;

/**
 * Reads and discards the rest of the body of a rejected request, up to a time and a size limit. Many clients read the
 * response only after they have sent everything, and would lose it if the connection were closed before.
 */
export async function drainBody(request: IncomingMessage, timeoutMs: number): Promise<void> {
  if (request.complete || request.destroyed) return;
  await new Promise<void>((resolve) => {
    let bytes = 0;
    const timer = setTimeout(resolve, timeoutMs);
    const countBytes = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxDrainBytes) resolve();
    };
    for (const event of ['end', 'close', 'error']) request.once(event, resolve);
    request.on('data', countBytes);
    request.resume();
    request.once('close', () => clearTimeout(timer));
    request.once('end', () => clearTimeout(timer));
  });
}
