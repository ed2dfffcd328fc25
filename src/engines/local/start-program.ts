import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { errnoCode } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import type { Invocation } from './command.ts';
import { buildEndWithoutStart, type EndCause, type SandboxNotStarted } from './job-end.ts';
import type { Output } from './output.ts';
import { statusDescriptor, toJobExit } from './sandbox.ts';

/** Starts the job's first process. Returns an error if that fails. */
export async function startProgram(
  { program, args }: Invocation,
  options: Pick<SpawnOptions, 'cwd' | 'env' | 'uid' | 'gid'>,
  outputs: Output[],
  onCause: (cause: EndCause) => void,
): Promise<ChildProcess | Error> {
  try {
    const stdio = ['ignore' as const, ...outputs.map((output) => output.writeEnd)];
    const child = spawn(program, args, { ...options, stdio, detached: true });
    child.once('exit', (code, signal) => onCause({ kind: 'exited', code, signal }));
    return await started(child);
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
): Promise<ChildProcess | Error> {
  try {
    const stdio = ['ignore' as const, ...outputs.map((output) => output.writeEnd), 'pipe' as const];
    // A new session: the job has no terminal into which it could type.
    const child = spawn(program, args, { cwd: '/', env, stdio, detached: true });
    let status = '';
    child.stdio[statusDescriptor]?.on('data', (chunk) => {
      status += chunk;
    });
    child.once('close', (code, signal) => onCause(toJobExit({ kind: 'exited', code, signal }, status)));
    return await started(child);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function started(child: ChildProcess): Promise<ChildProcess | Error> {
  return new Promise((resolve) => child.once('spawn', () => resolve(child)).once('error', resolve));
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
