import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Context } from '../context.ts';

/** Reads a line from a terminal without showing it, or everything from a pipe. */
export async function readSecret({ stdin, isInteractive, stderr, signal }: Context, prompt: string): Promise<string> {
  if (!isInteractive) return await text(stdin);
  stderr.write(prompt);
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: stdin, output: silent, terminal: true });
  // The interface takes Ctrl-C from the terminal, so it must pass it on.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  try {
    return await lines.question('', { signal });
  } finally {
    lines.close();
    stderr.write('\n');
  }
}
