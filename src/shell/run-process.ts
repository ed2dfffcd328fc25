import { BursarError } from '../domain/errors.ts';
import {
  collectOutput,
  guardInput,
  killProcess,
  type ProcessOptions,
  pipeInput,
  type StartProcess,
  startProcess,
} from './process.ts';
import type { RunOptions } from './shell.ts';
import { interruptedError, timeoutError, unavailableError } from './shell-errors.ts';

export interface RunProcessOptions extends Omit<RunOptions, 'environment'>, ProcessOptions {
  /** Default: the process is started by this one. */
  startProcess?: StartProcess | undefined;
}

export interface ProcessResult {
  code: number | null;
  stdout: Buffer;
  stderr: Buffer;
}

/**
 * Runs a process to its end. On a timeout, an abort, too much output or a failed input, kills the process group and
 * throws the first of these causes.
 */
export async function runProcess(argv: readonly string[], options: RunProcessOptions): Promise<ProcessResult> {
  const destroyInput = guardInput(options.stdin);
  try {
    return await runToEnd(argv, options);
  } finally {
    destroyInput();
  }
}

async function runToEnd(argv: readonly string[], options: RunProcessOptions): Promise<ProcessResult> {
  const { signal, timeoutMs, maxOutputBytes, stdin, label } = options;
  if (signal.aborted) throw interruptedError(label, signal);
  const start = options.startProcess ?? startProcess;
  const child = await start(argv, options, stdin);

  let failure: BursarError | null = null;
  let hasEnded = false;
  const fail = (error: BursarError) => {
    if (failure !== null || hasEnded) return;
    failure = error;
    void killProcess(child, options, stderr);
  };
  const failOverflow = (stream: string) => () =>
    fail(unavailableError(`${label} wrote more than ${maxOutputBytes} bytes to ${stream}, and was killed.`));
  const stdout = collectOutput(child.stdout, maxOutputBytes, failOverflow('stdout'));
  const stderr = collectOutput(child.stderr, maxOutputBytes, failOverflow('stderr'));
  pipeInput(child, stdin, (error) =>
    fail(error instanceof BursarError ? error : unavailableError(`The input of ${label} could not be read.`, error)),
  );
  const timer = setTimeout(() => fail(timeoutError(label, timeoutMs)), timeoutMs);
  const onAbort = () => fail(interruptedError(label, signal));
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort(); // aborted while the process was being started
  try {
    const code = await child.closed.catch((error) => {
      throw failure ?? error;
    });
    if (failure !== null) throw failure;
    return { code, stdout: stdout(), stderr: stderr() };
  } finally {
    hasEnded = true;
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}
