import { spawnSync } from 'node:child_process';
import { accessSync, constants, lstatSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type HiddenPath, type SandboxOptions, sandboxArguments, secretPaths } from './arguments.ts';

/** The bubblewrap of this host. */
export interface Bubblewrap {
  program: string;
  /** Versions before 0.7 cannot limit the size of a file system in memory. */
  canLimitMemory: boolean;
}

/** Finds out by trying whether jobs can be isolated on this host. Returns the reason if they cannot. */
export function probeBubblewrap(path: string | undefined): Bubblewrap | { reason: string } {
  const program = findProgram('bwrap', path);
  if (program === null) return { reason: 'bubblewrap is not installed (the program bwrap is not in PATH)' };
  if (findProblem(program, { sharedMemoryBytes: 1_000_000 }) === null) return { program, canLimitMemory: true };
  const problem = findProblem(program, {});
  if (problem === null) return { program, canLimitMemory: false };
  return { reason: `bubblewrap does not work on this host (${problem})` };
}

/** Runs `true` in a sandbox, in all namespaces that a configuration can ask for. Returns null if that works. */
function findProblem(program: string, memory: Pick<SandboxOptions, 'sharedMemoryBytes'>): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-sandbox-'));
  try {
    const paths = { directory: folder, temporaryFolder: folder, startDirectory: folder };
    const args = sandboxArguments({ ...paths, ...memory, readOnly: [], hidden: [], network: false });
    const options = { encoding: 'utf8', timeout: probeTimeoutMs } as const;
    const { error, status, stderr } = spawnSync(program, [...args, 'true'], options);
    if (error === undefined && status === 0) return null;
    return (error?.message ?? stderr.trim().split('\n').at(-1)) || `exit code ${status}`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const probeTimeoutMs = 10_000;

function findProgram(name: string, path = '/usr/local/bin:/usr/bin:/bin'): string | null {
  const candidates = path.split(delimiter).map((folder) => join(folder, name));
  return candidates.find((candidate) => isAccessible(candidate, constants.X_OK)) ?? null;
}

/**
 * Returns those of the paths that exist, each under its real name too. If this process is root, adds everything in /etc
 * that is not for everybody: the permissions of these files do not stop a job that runs as root.
 */
export function findHiddenPaths(paths: readonly string[], asRoot: boolean): HiddenPath[] {
  const candidates = asRoot ? [...paths, ...secretPaths, ...findPrivatePaths('/etc')] : paths;
  const names = candidates.flatMap((path) => {
    try {
      return [path, realpathSync(path)];
    } catch {
      return [];
    }
  });
  return [...new Set(names)].flatMap((path) => {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    // A link cannot be covered. Its target is in the list.
    if (stats === undefined || stats.isSymbolicLink()) return [];
    return { path, kind: stats.isDirectory() ? 'folder' : 'file' };
  });
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
