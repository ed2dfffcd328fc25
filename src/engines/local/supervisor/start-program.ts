import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoCode } from '../../../domain/errors.ts';
import type { JobEnd } from '../../../domain/jobs/job.ts';
import { buildEndWithoutStart, type EndCause, type SandboxNotStarted } from '../job-end.ts';
import type { ProcessId } from '../process-table.ts';
import { identifyProcess, waitForProcessEnd } from '../processes.ts';
import { statusDescriptor, toJobExit } from '../sandbox.ts';
import type { Invocation } from './command.ts';
import type { Output } from './output.ts';

/** The first process of a job, or the bubblewrap that has started it. */
export interface StartedProgram {
  pid: number;
  /**
   * Waits until the sandbox of a program that has ended is gone. Returns false if that is not certain, and if there is no
   * sandbox: other processes of the job may be left.
   */
  isSandboxGone(): Promise<boolean>;
}

/** Starts the job's first process. Returns an error if that fails. */
export async function startProgram(
  { program, args }: Invocation,
  options: Pick<SpawnOptions, 'cwd' | 'env' | 'uid' | 'gid'>,
  outputs: Output[],
  onCause: (cause: EndCause) => void,
): Promise<StartedProgram | Error> {
  try {
    const stdio = ['ignore' as const, ...outputs.map((output) => output.writeEnd)];
    const child = spawn(program, args, { ...options, stdio, detached: true });
    child.once('exit', (code, signal) => onCause({ kind: 'exited', code, signal }));
    return { pid: await started(child), isSandboxGone: async () => false };
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** Starts bubblewrap, which starts the job's first process. */
export async function startSandbox(
  { program, args }: Invocation,
  env: Record<string, string>,
  outputs: Output[],
  onCause: (cause: EndCause | SandboxNotStarted) => void,
): Promise<StartedProgram | Error> {
  try {
    const stdio = ['ignore' as const, ...outputs.map((output) => output.writeEnd), 'pipe' as const];
    // A new session: the job has no terminal into which it could type.
    const child = spawn(program, args, { cwd: '/', env, stdio, detached: true });
    let status = '';
    let init: Promise<ProcessId> | undefined;
    child.stdio[statusDescriptor]?.on('data', (chunk) => {
      status += chunk;
      const [, pid] = /"child-pid": (\d+)/.exec(status) ?? [];
      if (pid !== undefined) init ??= identifyProcess(Number(pid));
    });
    child.once('close', (code, signal) => onCause(toJobExit({ kind: 'exited', code, signal }, status)));
    return {
      pid: await started(child),
      // The first process of a process namespace ends after all others.
      isSandboxGone: async () => init !== undefined && (await waitForProcessEnd(await init, sandboxEndMs)),
    };
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** Longer than the kernel takes to remove a sandbox in which no process hangs. */
const sandboxEndMs = 500;

async function started(child: ChildProcess): Promise<number> {
  await once(child, 'spawn');
  const pid = Number(child.pid);
  void lowerSessionPriority(pid);
  return pid;
}

/** Start errors that the job's command causes. All others are errors of the machine. */
const commandErrors = new Set(['ENOENT', 'EACCES', 'ENOTDIR', 'ENOEXEC', 'ELOOP', 'E2BIG', 'ERR_INVALID_ARG_VALUE']);
/** The same, if the program is bubblewrap: the command is among its arguments. */
const sandboxedCommandErrors = new Set(['E2BIG', 'ERR_INVALID_ARG_VALUE']);

/** The end of a job whose program, or with `bubblewrap` that one, could not be started. */
export function toStartFailure(error: Error, program: string, bubblewrap: string | undefined): JobEnd {
  const code = errnoCode(error) ?? '';
  const isCommandError = (bubblewrap === undefined ? commandErrors : sandboxedCommandErrors).has(code);
  const failed = isCommandError ? program : (bubblewrap ?? program);
  const hint = code === 'E2BIG' ? 'the command is too long' : `it could not be started (${code})`;
  return buildEndWithoutStart(isCommandError ? 'rejected' : 'node_failed', `${failed}: ${hint}`, Date.now());
}

const niceness = 5;
const retryMs = 500;

/** Lets the server have the CPU before this process and the jobs that it starts, which inherit that. */
export function lowerOwnPriority(): void {
  void lowerSessionPriority(process.pid);
  try {
    setPriority(Math.min(19, getPriority() + niceness));
  } catch (error) {
    // A container or a service manager may forbid it.
    console.error(error);
  }
}

/**
 * Where Linux gives each session an equal part of the CPU (`sched_autogroup_enabled`), the priority of a process counts only within
 * its session, and this lowers that of the session. An ordinary account can do it ten times a second.
 */
export async function lowerSessionPriority(pid: number): Promise<void> {
  for (;;) {
    try {
      writeFileSync(`/proc/${pid}/autogroup`, String(niceness));
      return;
    } catch (error) {
      if (errnoCode(error) !== 'EAGAIN') return;
    }
    await sleep(retryMs, undefined, { ref: false });
  }
}
