import type { IncomingMessage } from 'node:http';

const mostBytes = 256_000_000;

/**
 * Reads on, and throws away, what a refused request still sends: many clients listen for an answer only when they have
 * sent everything, and a connection that is closed under them loses it. Not for ever, and not any amount.
 */
export async function drain(request: IncomingMessage, timeoutMs: number): Promise<void> {
  if (request.complete || request.destroyed) return;
  await new Promise<void>((resolve) => {
    let bytes = 0;
    const timer = setTimeout(resolve, timeoutMs);
    const count = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > mostBytes) resolve();
    };
    for (const end of ['end', 'close', 'error']) request.once(end, resolve);
    request.on('data', count);
    request.resume();
    request.once('close', () => clearTimeout(timer));
    request.once('end', () => clearTimeout(timer));
  });
}
