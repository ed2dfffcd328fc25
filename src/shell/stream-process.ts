import { type Readable, Transform } from 'node:stream';
import type { BursarError } from '../domain/errors.ts';
import { collectOutput, killProcess, type ProcessOptions, startProcess } from './process.ts';
import { interruptedError, unavailableError } from './shell-errors.ts';

export interface StreamOptions extends ProcessOptions {
  signal: AbortSignal;
  /** Returns the error of a process that failed; null if it succeeded. */
  exitError(code: number | null, stderr: Buffer): BursarError | null;
}

const maxStderrBytes = 1_000_000;

/** Streams the output of a process. The stream ends only after the process succeeded: truncated output never looks complete. */
export async function streamProcess(argv: readonly string[], options: StreamOptions): Promise<Readable> {
  const { signal, label, exitError } = options;
  if (signal.aborted) throw interruptedError(label, signal);
  const child = await startProcess(argv, options, undefined);

  let hasEnded = false;
  const output = new Transform({
    transform: (chunk, _encoding, done) => done(null, chunk),
    flush: (done) => {
      child.closed.then((code) => {
        hasEnded = true;
        done(exitError(code, stderr()));
      }, done);
    },
  });
  const stderr = collectOutput(child.stderr, maxStderrBytes, () =>
    output.destroy(unavailableError(`${label} wrote more than ${maxStderrBytes} bytes to stderr, and was killed.`)),
  );
  const onAbort = () => output.destroy(interruptedError(label, signal));
  signal.addEventListener('abort', onAbort);
  output.once('close', () => {
    signal.removeEventListener('abort', onAbort);
    if (!hasEnded) void killProcess(child, options, stderr);
  });
  child.stdout.pipe(output);
  if (signal.aborted) onAbort(); // aborted while the process was being started
  return output;
}
