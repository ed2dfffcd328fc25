import { spawnSync } from 'node:child_process';
import { accessSync, chownSync, constants, existsSync, lstatSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, relative } from 'node:path';
import { isInside } from '../../domain/systems/isolation.ts';
import {
  type HiddenPath,
  isPrivateExpression,
  type SandboxOptions,
  sandboxArguments,
  secretPaths,
} from './arguments.ts';

export const installBubblewrap =
  'Install bubblewrap (apt-get install bubblewrap, or dnf install bubblewrap) and allow it to create user namespaces; ' +
  'docs/security.md says how.';

/** The bubblewrap of this host. */
export interface Bubblewrap {
  program: string;
  /** Versions before 0.7 cannot limit the size of a file system in memory. */
  canLimitMemory: boolean;
  /** Versions before 0.8 cannot keep a job from creating user namespaces, nor can a bubblewrap that is run by root. */
  canDisableUserNamespaces: boolean;
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
  let problem: string | null = null;
  for (const features of findFeatures()) {
    problem = findProblem(program, settings, features);
    if (problem === null) {
      return {
        program,
        canLimitMemory: features.sharedMemoryBytes !== undefined,
        canDisableUserNamespaces: features.disableUserNamespaces === true,
      };
    }
  }
  return { reason: `bubblewrap does not work on this host (${problem})` };
}

type Features = Pick<SandboxOptions, 'sharedMemoryBytes' | 'disableUserNamespaces'>;

/** The features that not every bubblewrap has: the newest version first. Run by root, it creates no user namespace. */
function findFeatures(): Features[] {
  const sharedMemoryBytes = 1_000_000;
  const newest = process.getuid?.() === 0 ? [] : [{ sharedMemoryBytes, disableUserNamespaces: true }];
  return [...newest, { sharedMemoryBytes }, {}];
}

/** A private file in /etc may disappear before bubblewrap can hide it. */
const maxProbes = 10;

/** Returns null if a sandbox can be started. */
function findProblem(program: string, settings: ProbedSettings, features: Features): string | null {
  for (let probe = 1; ; probe++) {
    const problem = probeSandbox(program, settings, features);
    if (problem === null || !problem.includes('/etc/') || probe === maxProbes) return problem;
  }
}

/** Runs `true` in a sandbox like that of a job. Returns null if that works. */
function probeSandbox(
  program: string,
  { hidden, account, ...settings }: ProbedSettings,
  features: Features,
): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-sandbox-'));
  try {
    if (account !== undefined) chownSync(folder, account.uid, account.gid);
    const args = sandboxArguments({
      ...settings,
      ...features,
      ...(account === undefined ? {} : { account }),
      directory: folder,
      temporaryFolder: folder,
      startDirectory: folder,
      hidden: findHiddenPaths([...hidden, ...findPrivateFiles(account)], settings.readOnly),
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
const runsAsRoot = (account: SandboxOptions['account']) => account === undefined && process.getuid?.() === 0;

/** Long, because a busy host must not be mistaken for one without isolation. */
const probeTimeoutMs = 60_000;

function findProgram(name: string, path = '/usr/local/bin:/usr/bin:/bin'): string | null {
  const candidates = path.split(delimiter).map((folder) => join(folder, name));
  return candidates.find((candidate) => isAccessible(candidate, constants.X_OK)) ?? null;
}

/**
 * Returns those of the paths that exist, each under its real name too, and under the names that it has in folders of
 * `readOnly` that are links.
 */
export function findHiddenPaths(paths: readonly string[], readOnly: readonly string[] = []): HiddenPath[] {
  const links = readOnly.flatMap((folder) => {
    const name = realName(folder);
    return name === folder ? [] : { folder, name };
  });
  const names = paths.flatMap((path) => {
    if (!existsSync(path)) return [];
    const real = realName(path);
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

/** The path without symbolic links, even of a folder that does not exist yet. */
export function realName(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realName(parent), path.slice(parent.length));
  }
}

/**
 * Files of this host that jobs must not see: all in /etc that are not for everybody, because the account of a job may own one or
 * belong to its group. If jobs run as root, also the secrets of the system, which may be links out of /etc.
 */
export function findPrivateFiles(account: SandboxOptions['account']): string[] {
  // Node would take ten times as long.
  const args = ['/etc', ...isPrivateExpression.split(' '), '-prune', '-print0'];
  const { error, signal, stdout } = spawnSync('find', args, { encoding: 'utf8', timeout: probeTimeoutMs });
  // Without the list, a job could see them.
  if (error !== undefined || signal !== null) throw error ?? new Error(`find was killed by ${signal}`);
  return [...(runsAsRoot(account) ? secretPaths : []), ...stdout.split('\0').filter(Boolean)];
}

function isAccessible(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}
