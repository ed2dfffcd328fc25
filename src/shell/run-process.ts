import { once } from 'node:events';
import { BursarError } from '../domain/errors.ts';
import { collect, endProcess, feed, keepInput, type ProcessSetting, startProcess } from './process.ts';
import type { RunOptions } from './shell.ts';
import { interrupted, tooSlow, unavailable } from './shell-errors.ts';

export interface ProcessEnd {
  code: number | null;
  stdout: Buffer;
  stderr: Buffer;
}

/** Runs a process to its end. The first cause of an ending wins, and whatever it is, the process group is gone after it. */
export async function runProcess(argv: readonly string[], options: RunOptions & ProcessSetting): Promise<ProcessEnd> {
  const dropInput = keepInput(options.stdin);
  try {
    return await runToEnd(argv, options);
  } finally {
    dropInput();
  }
}

async function runToEnd(argv: readonly string[], options: RunOptions & ProcessSetting): Promise<ProcessEnd> {
  const { signal, timeoutMs, maxOutputBytes, stdin, what } = options;
  if (signal.aborted) throw interrupted(what, signal);
  const child = await startProcess(argv, options, stdin !== undefined);

  let failure: BursarError | null = null;
  let isOver = false;
  const fail = (error: BursarError) => {
    if (failure !== null || isOver) return;
    failure = error;
    void endProcess(child, options, stderr);
  };
  const overflow = (stream: string) => () =>
    fail(unavailable(`${what} wrote more than ${maxOutputBytes} bytes to ${stream}, and was ended.`));
  const stdout = collect(child.stdout, maxOutputBytes, overflow('stdout'));
  const stderr = collect(child.stderr, maxOutputBytes, overflow('stderr'));
  feed(child, stdin, (error) =>
    fail(error instanceof BursarError ? error : unavailable(`The input of ${what} broke off.`, error)),
  );
  const timer = setTimeout(() => fail(tooSlow(what, timeoutMs)), timeoutMs);
  const onAbort = () => fail(interrupted(what, signal));
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort(); // it was aborted while the process started
  try {
    const [code] = await once(child, 'close');
    if (failure !== null) throw failure;
    return { code, stdout: stdout(), stderr: stderr() };
  } finally {
    isOver = true;
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}
