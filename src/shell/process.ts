import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { finished, Readable, type Writable } from 'node:stream';
import { BursarError, errnoCode } from '../domain/errors.ts';
import type { RunOptions } from './shell.ts';
import { unavailableError } from './shell-errors.ts';

export type RunningProcess = ChildProcessByStdio<Writable | null, Readable, Readable>;

export interface ProcessOptions {
  environment: Record<string, string>;
  /** The program and its host, for messages. */
  label: string;
  /** Called once before the process is killed. `stderr` returns what the process has written to stderr so far. */
  beforeKill?(child: RunningProcess, stderr: () => Buffer): Promise<void>;
}

/** Starts a program, without a shell, as the leader of a new process group. */
export async function startProcess(
  argv: readonly string[],
  { environment, label }: ProcessOptions,
  hasStdin: boolean,
): Promise<RunningProcess> {
  const [program, ...args] = argv;
  if (!program || argv.some((argument) => argument.includes('\0'))) throw invalidCommandError();
  try {
    const child = spawn(program, args, {
      cwd: '/',
      env: environment,
      detached: true,
      stdio: [hasStdin ? 'pipe' : 'ignore', 'pipe', 'pipe'],
    });
    await once(child, 'spawn');
    return child as RunningProcess;
  } catch (error) {
    throw unavailableError(`${label} could not be started${startErrorHint(error)}.`, error);
  }
}

export const invalidCommandError = () =>
  new BursarError('internal', 'Bursar built a command that cannot be run. Please report this.');

function startErrorHint(error: unknown): string {
  const code = errnoCode(error);
  if (code === 'ENOENT') return ': there is no such program. Install it, or add its folder to PATH';
  return code === undefined ? '' : ` (${code})`;
}

/** Kills a process with its whole group. Closes its output even if another process still holds it open. */
export async function killProcess(child: RunningProcess, options: ProcessOptions, stderr: () => Buffer): Promise<void> {
  await options.beforeKill?.(child, stderr).catch(() => undefined);
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // The whole group has already ended.
  }
  child.stdin?.destroy();
  child.stdout.destroy();
  child.stderr.destroy();
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
