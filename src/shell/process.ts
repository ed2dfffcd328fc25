import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { finished, Readable, type Writable } from 'node:stream';
import { BursarError } from '../domain/errors.ts';
import type { RunOptions } from './shell.ts';
import { unavailable } from './shell-errors.ts';

export type RunningProcess = ChildProcessByStdio<Writable | null, Readable, Readable>;

/** What is known about a process besides its argv, whether its output is collected or streamed. */
export interface ProcessSetting {
  environment: Record<string, string>;
  /** The command and its place, for messages. */
  what: string;
  /** Called once before a process is killed, with what it has written to stderr: a last chance to talk to it. */
  beforeKill?(process: RunningProcess, stderr: () => Buffer): Promise<void>;
}

/** Starts a program, without a shell, as the leader of a process group of its own. */
export async function startProcess(
  argv: readonly string[],
  { environment, what }: ProcessSetting,
  hasStdin: boolean,
): Promise<RunningProcess> {
  const [program, ...args] = argv;
  if (!program || argv.some((word) => word.includes('\0'))) {
    throw new BursarError('internal', 'Bursar made a command that no system can run. Please report this.');
  }
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
    throw unavailable(`${what} could not be started${hintOf(error)}.`, error);
  }
}

function hintOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOENT') return ': there is no such program. Install it, or add its folder to PATH';
  return code === undefined ? '' : ` (${code})`;
}

/** Kills a process with its whole group, and lets go of its output even if something else still holds it open. */
export async function endProcess(child: RunningProcess, setting: ProcessSetting, stderr: () => Buffer): Promise<void> {
  await setting.beforeKill?.(child, stderr).catch(() => undefined);
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // The whole group is gone already.
  }
  child.stdin?.destroy();
  child.stdout.destroy();
  child.stderr.destroy();
}

/** Collects up to a limit; the first byte beyond it calls `onOverflow`, and is the last that is kept. */
export function collect(stream: Readable, maxBytes: number, onOverflow: () => void): () => Buffer {
  const chunks: Buffer[] = [];
  let room = maxBytes;
  stream.on('data', (chunk: Buffer) => {
    if (room < 0) return;
    room -= chunk.length;
    chunks.push(chunk);
    if (room < 0) onOverflow();
  });
  return () => Buffer.concat(chunks);
}

/**
 * Looks after an input until `feed` does: one that fails while its command waits for a connection is not told to anybody
 * yet, and must not end Bursar. The answer lets go of it, whether or not anybody has read it.
 */
export function keepInput(stdin: RunOptions['stdin']): () => void {
  if (!(stdin instanceof Readable)) return () => undefined;
  stdin.on('error', () => undefined);
  return () => void stdin.destroy();
}

/** Gives a process its input. A source that fails is never passed on as if it had merely ended: `onFailure` is told. */
export function feed(child: RunningProcess, stdin: RunOptions['stdin'], onFailure: (error: unknown) => void): void {
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
