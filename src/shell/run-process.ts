import { type Readable, Transform } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { BursarError } from '../domain/errors.ts';
import {
  collectOutput,
  guardInput,
  killProcess,
  type ProcessOptions,
  pipeInput,
  type RunningProcess,
  type StartProcess,
  startProcess,
} from './process.ts';
import { interruptedError, type RunOptions, timeoutError, unavailableError } from './shell.ts';

/** How long the start of a process is awaited after its timeout, or after an abort. */
const maxStartMs = 2000;
/** How long the end of a killed process is awaited. Killing it continues then: on another host it can take longer. */
const maxKillMs = 5000;

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
  const { label, signal, stdin } = options;
  const destroyInput = guardInput(stdin);
  try {
    if (signal.aborted) throw interruptedError(label, signal);
    return await withTimeout(options, async (stopped) =>
      collectResult(await start(argv, options, stopped), options, stopped),
    );
  } finally {
    destroyInput();
  }
}

/** Runs work, and passes it a promise that is rejected at the timeout or by the signal. */
export async function withTimeout<T>(
  { label, signal, timeoutMs }: { label: string; signal: AbortSignal; timeoutMs?: number },
  work: (stopped: Promise<never>) => Promise<T>,
): Promise<T> {
  const { promise: stopped, reject: stop } = Promise.withResolvers<never>();
  stopped.catch(() => undefined);
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => stop(timeoutError(label, timeoutMs)), timeoutMs);
  const onAbort = () => stop(interruptedError(label, signal));
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort();
  try {
    return await work(stopped);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

/** Starts a process. One that is being started at the timeout is awaited for a moment, so that it can be killed. */
async function start(
  argv: readonly string[],
  options: RunProcessOptions,
  stopped: Promise<never>,
): Promise<RunningProcess> {
  const starting = (options.startProcess ?? startProcess)(argv, options, options.stdin);
  const gaveUp = stopped.catch(async (error) => {
    await sleep(maxStartMs, undefined, { ref: false });
    throw error;
  });
  try {
    return await Promise.race([starting, gaveUp]);
  } catch (error) {
    starting.then(
      (child) => killProcess(child, options, collectOutput(child.stderr, options.maxOutputBytes, child.kill)),
      () => undefined,
    );
    throw error;
  }
}

async function collectResult(
  child: RunningProcess,
  options: RunProcessOptions,
  stopped: Promise<never>,
): Promise<ProcessResult> {
  const { maxOutputBytes, stdin, label } = options;
  let failure: BursarError | null = null;
  let hasEnded = false;
  let killTimer: NodeJS.Timeout | undefined;
  const { promise: givenUp, reject: giveUp } = Promise.withResolvers<never>();
  const fail = (error: BursarError) => {
    if (failure !== null || hasEnded) return;
    failure = error;
    void killProcess(child, options, stderr);
    killTimer = setTimeout(() => giveUp(error), maxKillMs);
  };
  const failOverflow = (stream: string) => () =>
    fail(unavailableError(`${label} wrote more than ${maxOutputBytes} bytes to ${stream}, and was killed.`));
  const stdout = collectOutput(child.stdout, maxOutputBytes, failOverflow('stdout'));
  const stderr = collectOutput(child.stderr, maxOutputBytes, failOverflow('stderr'));
  pipeInput(child, stdin, (error) =>
    fail(error instanceof BursarError ? error : unavailableError(`The input of ${label} could not be read.`, error)),
  );
  stopped.catch(fail);
  try {
    const code = await Promise.race([child.closed, givenUp]).catch((error) => {
      throw failure ?? error;
    });
    if (failure !== null) throw failure;
    return { code, stdout: stdout(), stderr: stderr() };
  } finally {
    hasEnded = true;
    clearTimeout(killTimer);
  }
}

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
