import { spawnSync } from 'node:child_process';
import { accessSync, chownSync, constants, lstatSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, relative } from 'node:path';
import { isInside } from '../../domain/systems/isolation.ts';
import { type HiddenPath, type SandboxOptions, sandboxArguments, secretPaths } from './arguments.ts';

/** The bubblewrap of this host. */
export interface Bubblewrap {
  program: string;
  /** Versions before 0.7 cannot limit the size of a file system in memory. */
  canLimitMemory: boolean;
}

/** The settings of a system that its sandboxes depend on. */
export interface ProbedSettings extends Pick<SandboxOptions, 'readOnly' | 'network' | 'account'> {
  /** Paths that jobs must not see, if they exist. */
  hidden: readonly string[];
}

/** Finds out by trying whether jobs can be isolated on this host with these settings. Returns the reason if they cannot. */
export function probeBubblewrap(path: string | undefined, settings: ProbedSettings): Bubblewrap | { reason: string } {
  const program = findProgram('bwrap', path);
  if (program === null) return { reason: 'bubblewrap is not installed (the program bwrap is not in PATH)' };
  if (findProblem(program, settings, { sharedMemoryBytes: 1_000_000 }) === null)
    return { program, canLimitMemory: true };
  const problem = findProblem(program, settings, {});
  if (problem === null) return { program, canLimitMemory: false };
  return { reason: `bubblewrap does not work on this host (${problem})` };
}

/** Runs `true` in a sandbox like that of a job. Returns null if that works. */
function findProblem(
  program: string,
  { hidden, account, ...settings }: ProbedSettings,
  memory: Pick<SandboxOptions, 'sharedMemoryBytes'>,
): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-sandbox-'));
  try {
    if (account !== undefined) chownSync(folder, account.uid, account.gid);
    const args = sandboxArguments({
      ...settings,
      ...memory,
      ...(account === undefined ? {} : { account }),
      ...{ directory: folder, temporaryFolder: folder, startDirectory: folder },
      hidden: findHiddenPaths(hidden, runsAsRoot(account), settings.readOnly),
      statusDescriptor: 3,
    });
    const { error, status, stderr } = spawnSync(program, [...args, 'true'], {
      cwd: '/',
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      timeout: probeTimeoutMs,
    });
    if (error === undefined && status === 0) return null;
    return (error?.message ?? stderr.trim().split('\n').at(-1)) || `exit code ${status}`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** True if jobs have the user id of root. `account` is the one that jobs run as, if it is not that of this process. */
export const runsAsRoot = (account: SandboxOptions['account']) => account === undefined && process.getuid?.() === 0;

const probeTimeoutMs = 10_000;

function findProgram(name: string, path = '/usr/local/bin:/usr/bin:/bin'): string | null {
  const candidates = path.split(delimiter).map((folder) => join(folder, name));
  return candidates.find((candidate) => isAccessible(candidate, constants.X_OK)) ?? null;
}

/**
 * Returns those of the paths that exist, each under its real name too, and under the names that it has in folders of
 * `readOnly` that are links. If this process is root, adds everything in /etc
 * that is not for everybody: the permissions of these files do not stop a job that runs as root.
 */
export function findHiddenPaths(
  paths: readonly string[],
  asRoot: boolean,
  readOnly: readonly string[] = [],
): HiddenPath[] {
  const links = readOnly.flatMap((folder) => {
    const name = realNameOf(folder);
    return name === null || name === folder ? [] : { folder, name };
  });
  const candidates = asRoot ? [...paths, ...secretPaths, ...findPrivatePaths('/etc')] : paths;
  const names = candidates.flatMap((path) => {
    const real = realNameOf(path);
    if (real === null) return [];
    const aliases = links.filter(({ name }) => isInside(real, name));
    return [path, real, ...aliases.map(({ folder, name }) => join(folder, relative(name, real)))];
  });
  return [...new Set(names)].flatMap((path) => {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    // A link cannot be covered. Its target is in the list.
    if (stats === undefined || stats.isSymbolicLink()) return [];
    return { path, kind: stats.isDirectory() ? 'folder' : 'file' };
  });
}

/** The path without symbolic links; null if it does not exist. */
function realNameOf(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

/** The files and folders below a folder that only their owner or group can read. Node would take ten times as long. */
function findPrivatePaths(folder: string): string[] {
  const isPrivate = [
    '(',
    '-type',
    'd',
    '!',
    '-perm',
    '-005',
    '-o',
    '!',
    '-type',
    'd',
    '!',
    '-type',
    'l',
    '!',
    '-perm',
    '-004',
    ')',
  ];
  const { error, stdout } = spawnSync('find', [folder, ...isPrivate, '-prune', '-print0'], {
    encoding: 'utf8',
    timeout: probeTimeoutMs,
  });
  // Without the list, a job could see them.
  if (error !== undefined) throw error;
  return stdout.split('\0').filter(Boolean);
}

function isAccessible(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}
