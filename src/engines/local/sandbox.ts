import { readFile, realpath } from 'node:fs/promises';
import { constants } from 'node:os';
import { isInside } from '../../domain/systems/isolation.ts';
import { type EngineJob, startDirectoryOf } from '../engine.ts';
import { type Account, type HiddenPath, isVisible, sandboxArguments } from '../sandbox/arguments.ts';
import { findHiddenPaths, findPrivateFiles } from '../sandbox/host.ts';
import { scratchFolder } from './environment.ts';
import type { EndCause, JobLimits, SandboxNotStarted } from './job-end.ts';
import type { Invocation } from './supervisor/command.ts';

/** How the jobs of a local engine are isolated. It is passed to supervisors as JSON. */
export interface LocalSandbox {
  /** The path of bubblewrap. */
  program: string;
  canLimitMemory: boolean;
  canDisableUserNamespaces: boolean;
  readOnly: readonly string[];
  /** Paths that jobs must not see, if they exist: Bursar's data, the workspaces, the home of its account. */
  hidden: readonly string[];
  network: boolean;
}

/** The sandbox of one job. */
export interface JobSandbox {
  /** True if the job can see a program of this host. */
  canSee(path: string): Promise<boolean>;
  wrap(invocation: Invocation): Invocation;
}

/** The descriptor of bubblewrap's status reports. */
export const statusDescriptor = 3;

/** `privateFiles` are hidden too, those that still exist. */
export function createJobSandbox(
  settings: LocalSandbox,
  job: EngineJob,
  limits: JobLimits,
  account: Account | undefined,
  privateFiles: readonly string[],
): JobSandbox {
  const { directory } = job.workspace;
  const hidden: HiddenPath[] = findHiddenPaths([...settings.hidden, ...privateFiles], settings.readOnly);
  const view = { readOnly: settings.readOnly, hidden };
  const args = sandboxArguments({
    ...view,
    directory,
    temporaryFolder: scratchFolder(job),
    startDirectory: startDirectoryOf(job),
    network: settings.network,
    statusDescriptor,
    disableUserNamespaces: settings.canDisableUserNamespaces,
    ...(settings.canLimitMemory ? { sharedMemoryBytes: limits.memoryMb * 1_000_000 } : {}),
    ...(account === undefined ? {} : { account }),
  });
  return {
    async canSee(path) {
      if (isInside(path, directory)) return true;
      return isVisible(path, view) && isVisible(await realpath(path).catch(() => path), view);
    },
    wrap: ({ program, args: programArgs }) => ({ program: settings.program, args: [...args, program, ...programArgs] }),
  };
}

/**
 * Translates the end of bubblewrap to the end of the job. `status` is what bubblewrap reported: it contains an exit code
 * only if the job's program was started. Bubblewrap exits with 128 plus the number of the signal that killed the program.
 */
export function toJobExit(exit: Extract<EndCause, { kind: 'exited' }>, status: string): EndCause | SandboxNotStarted {
  if (exit.code === null) return exit;
  if (!status.includes('"exit-code"')) return { kind: 'not_started' };
  const signal = signalNames.get(exit.code - 128);
  return signal === undefined ? exit : { kind: 'exited', code: null, signal };
}

/**
 * Reads the message of bubblewrap about a program that it did not start. Nothing else has written to stderr, and the file
 * is complete.
 */
export async function readSandboxProblem(stderrFile: string): Promise<string> {
  const text = await readFile(stderrFile, 'utf8').catch(() => '');
  return text.trim().replace(/^bwrap: /, '');
}

/** Signals that do not kill by default. */
const harmlessSignals = ['SIGCHLD', 'SIGCONT', 'SIGSTOP', 'SIGTSTP', 'SIGTTIN', 'SIGTTOU', 'SIGURG', 'SIGWINCH'];

/** The names of the signals that kill, by number. Of two names for one signal, the first one counts. */
const signalNames = new Map(
  Object.entries(constants.signals)
    .filter(([name]) => !harmlessSignals.includes(name))
    .map(([name, number]) => [number, name as NodeJS.Signals] as const)
    .reverse(),
);

export type PrivateFiles = ReturnType<typeof createPrivateFiles>;

/**
 * A file that has become private since is visible to the jobs that start until the next search, as it is to those that run
 * already.
 */
const maxAgeMs = 1000;

/** The private files of this host, which jobs must not see. The search is shared by the jobs that start in the same second. */
export function createPrivateFiles() {
  /** By the id of the account: root sees more. */
  const searches = new Map<number | undefined, { searchedAt: number; files: readonly string[] }>();
  return {
    find(account: Account | undefined, { mustBeNew }: { mustBeNew: boolean }): readonly string[] {
      const earlier = searches.get(account?.uid);
      if (!mustBeNew && earlier !== undefined && performance.now() - earlier.searchedAt < maxAgeMs)
        return earlier.files;
      const searchedAt = performance.now();
      const files = findPrivateFiles(account);
      searches.set(account?.uid, { searchedAt, files });
      return files;
    },
  };
}
