import { once } from 'node:events';
import { type Readable, Transform } from 'node:stream';
import type { BursarError } from '../domain/errors.ts';
import { collect, endProcess, type ProcessSetting, startProcess } from './process.ts';
import { interrupted, unavailable } from './shell-errors.ts';

export interface StreamSetting extends ProcessSetting {
  signal: AbortSignal;
  /** Says what was wrong with an ending, if anything. */
  judge(code: number | null, stderr: Buffer): BursarError | null;
}

const maxStderrBytes = 1_000_000;

/** The stream ends only once the process has ended well: half an output is never taken for a whole. */
export async function streamProcess(argv: readonly string[], setting: StreamSetting): Promise<Readable> {
  const { signal, what, judge } = setting;
  if (signal.aborted) throw interrupted(what, signal);
  const child = await startProcess(argv, setting, false);

  const closed = once(child, 'close');
  let isOver = false;
  const output = new Transform({
    transform: (chunk, _encoding, done) => done(null, chunk),
    flush: (done) => {
      closed.then(([code]) => {
        isOver = true;
        done(judge(code, stderr()));
      }, done);
    },
  });
  const stderr = collect(child.stderr, maxStderrBytes, () =>
    output.destroy(unavailable(`${what} wrote more than ${maxStderrBytes} bytes to stderr, and was ended.`)),
  );
  const onAbort = () => output.destroy(interrupted(what, signal));
  signal.addEventListener('abort', onAbort);
  output.once('close', () => {
    signal.removeEventListener('abort', onAbort);
    if (!isOver) void endProcess(child, setting, stderr);
  });
  child.stdout.pipe(output);
  if (signal.aborted) onAbort(); // it was aborted while the process started
  return output;
}
