import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { finished, Readable, type Writable } from 'node:stream';
import { BursarError, errnoCode } from '../domain/errors.ts';
import { type RunOptions, unavailableError } from './shell.ts';

/** A process that was started in `/`, as the leader of a new process group. */
export interface RunningProcess {
  readonly pid: number | undefined;
  readonly stdin: Writable | null;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves with the exit code when the process has ended and its output is complete; null if a signal ended it. */
  readonly closed: Promise<number | null>;
  hasExited(): boolean;
  /** Kills the whole process group. Closes the output even if another process still holds it open. */
  kill(): void;
}

export interface ProcessOptions {
  environment: Record<string, string>;
  /** The program and its host, for messages. */
  label: string;
  /** Called once before the process is killed. `stderr` returns what the process has written to stderr so far. */
  beforeKill?(child: RunningProcess, stderr: () => Buffer): Promise<void>;
}

/**
 * Starts a program, without a shell. The process has a `stdin` if there is an input which `pipeInput` must write. Throws
 * `unavailable` if the program cannot be started.
 */
export type StartProcess = (
  argv: readonly string[],
  options: ProcessOptions,
  stdin: RunOptions['stdin'],
) => Promise<RunningProcess>;

export const startProcess: StartProcess = async (argv, { environment, label }, stdin) => {
  const { program, args } = parseCommand(argv);
  try {
    const child = spawn(program, args, {
      cwd: '/',
      env: environment,
      detached: true,
      stdio: [stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    await once(child, 'spawn');
    return toRunningProcess(child as ChildProcessByStdio<Writable | null, Readable, Readable>);
  } catch (error) {
    throw startError(label, error);
  }
};

function toRunningProcess(child: ChildProcessByStdio<Writable | null, Readable, Readable>): RunningProcess {
  const { pid, stdin, stdout, stderr } = child;
  const closed = once(child, 'close').then(([code]) => code as number | null);
  closed.catch(() => undefined); // nobody may be waiting for it
  return {
    ...{ pid, stdin, stdout, stderr, closed },
    hasExited: () => child.exitCode !== null,
    kill() {
      killGroup(pid);
      for (const stream of [stdin, stdout, stderr]) stream?.destroy();
    },
  };
}

/** Kills all processes of a process group. */
export function killGroup(id: number | undefined): void {
  try {
    if (id !== undefined) process.kill(-id, 'SIGKILL');
  } catch {
    // The whole group has already ended.
  }
}

export function parseCommand(argv: readonly string[]): { program: string; args: string[] } {
  const [program, ...args] = argv;
  if (!program || argv.some((argument) => argument.includes('\0'))) throw invalidCommandError();
  return { program, args };
}

export const invalidCommandError = () =>
  new BursarError('internal', 'Bursar built a command that cannot be run. Please report this.');

export const startError = (label: string, error: unknown) =>
  unavailableError(`${label} could not be started${startErrorHint(error)}.`, error);

function startErrorHint(error: unknown): string {
  const code = errnoCode(error);
  if (code === 'ENOENT') return ': there is no such program. Install it, or add its folder to PATH';
  return code === undefined ? '' : ` (${code})`;
}

/** Kills a process with its whole group. */
export async function killProcess(child: RunningProcess, options: ProcessOptions, stderr: () => Buffer): Promise<void> {
  await options.beforeKill?.(child, stderr).catch(() => undefined);
  child.kill();
}

/** Collects output. The chunk that exceeds `maxBytes` is the last one collected, and calls `onOverflow`. */
export function collectOutput(stream: Readable, maxBytes: number, onOverflow: () => void): () => Buffer {
  const chunks: Buffer[] = [];
  let bytesLeft = maxBytes;
  stream.on('data', (chunk: Buffer) => {
    if (bytesLeft < 0) return;
    bytesLeft -= chunk.length;
    chunks.push(chunk);
    if (bytesLeft < 0) onOverflow();
  });
  return () => Buffer.concat(chunks);
}

/**
 * Handles errors of an input stream until `pipeInput` does. An input may fail while its command still waits for a
 * connection; without a listener, that error would crash Bursar. Returns a function that destroys the input, read or not.
 */
export function guardInput(stdin: RunOptions['stdin']): () => void {
  if (!(stdin instanceof Readable)) return () => undefined;
  stdin.on('error', () => undefined);
  return () => void stdin.destroy();
}

/** Writes the input to a process. If the source fails, stdin is not ended as if it were complete; `onFailure` is called. */
export function pipeInput(
  child: RunningProcess,
  stdin: RunOptions['stdin'],
  onFailure: (error: unknown) => void,
): void {
  const target = child.stdin;
  if (target === null) return;
  target.on('error', () => undefined); // a command need not read all of its input
  if (!(stdin instanceof Readable)) {
    target.end(stdin);
    return;
  }
  finished(stdin, { writable: false }, (error) => {
    if (error) onFailure(error);
    else target.end();
  });
  stdin.pipe(target, { end: false });
}
