import { randomBytes } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join, posix } from 'node:path';
import type { Readable } from 'node:stream';
import { msPerHour } from '../../../domain/units.ts';
import { createLocalShell } from '../../../shell/local-shell.ts';
import type { Shell } from '../../../shell/shell.ts';
import { toFileSystemError } from '../../file-system-errors.ts';
import { isJobId, requireJobId } from '../../safe-paths.ts';
import { unpackZip } from '../../zip/unzip.ts';
import type { ZipSource } from '../../zip/zip-source.ts';
import { removeTree } from '../remove-tree.ts';
import type { Workspaces } from '../workspaces.ts';
import { toRemoteError } from './remote-errors.ts';
import { createRemoteReader } from './remote-reader.ts';
import { listScript, measureScript, publishScript, removeScript, unpackScript } from './write-scripts.ts';

export interface RemoteWorkspacesOptions {
  /** How to reach the host that sees the workspaces under `root`. */
  shell: Shell;
  /** An absolute path over there. */
  root: string;
  /** A folder here, for zips on their way: they are checked and unpacked before anything leaves this host. */
  staging: string;
}

/** A file system of a cluster can be slow with many files; a command that hangs must end all the same. */
const commandTimeoutMs = 600_000;
const transferTimeoutMs = msPerHour;
const maxOutputBytes = 64_000_000;
const never = new AbortController().signal;

/**
 * Workspaces that another host sees, with the guarantees of `Workspaces`. An upload is one archive, unpacked under
 * the name of this attempt only; a second command, sent when the first has ended well, gives it its real name. So neither
 * a lost connection nor a command that lingers from an earlier attempt can put a part of a workspace there.
 *
 * Further failures: `unavailable` (transient) when the host cannot be reached.
 */
export function createRemoteWorkspaces({ shell, root, staging }: RemoteWorkspacesOptions): Workspaces {
  // tar runs here, wherever the other shell runs things. macOS would add files of its own to the archive.
  const here = createLocalShell({ environment: { COPYFILE_DISABLE: '1' } });
  const homeOf = (jobId: string) => posix.join(root, requireJobId(jobId));
  const stagingOf = (jobId: string) => join(staging, requireJobId(jobId));

  async function runScript(doing: string, script: string, args: string[], stdin?: Readable): Promise<string> {
    const result = await shell.run(['sh', '-c', script, 'sh', ...args], {
      signal: never,
      timeoutMs: stdin === undefined ? commandTimeoutMs : transferTimeoutMs,
      maxOutputBytes,
      ...(stdin && { stdin }),
    });
    if (result.code !== 0) throw toRemoteError(doing, shell.hostLabel, result);
    return result.stdout;
  }

  async function upload(jobId: string, packed: Readable | undefined) {
    const doing = 'make the workspace of the job';
    const attempt = randomBytes(8).toString('hex');
    const kind = packed === undefined ? 'empty' : 'tar';
    await runScript(doing, unpackScript, [homeOf(jobId), attempt, kind], packed);
    await runScript(doing, publishScript, [homeOf(jobId), attempt]);
  }

  async function unpackHere(folder: string, zip: ZipSource, limits: Parameters<Workspaces['stage']>[2]) {
    try {
      await removeTree(folder);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await unpackZip(zip, folder, limits);
    } catch (error) {
      throw toFileSystemError('unpack the files of the job', error);
    }
  }

  async function remove(jobId: string) {
    await removeTree(stagingOf(jobId));
    await runScript('remove the files of a job', removeScript, [homeOf(jobId)]);
  }

  return {
    ...createRemoteReader(shell, root),

    pathsOf(jobId) {
      const home = homeOf(jobId);
      return {
        directory: posix.join(home, 'files'),
        stdout: posix.join(home, 'stdout'),
        stderr: posix.join(home, 'stderr'),
      };
    },

    async stage(jobId, zip, limits) {
      const folder = stagingOf(jobId);
      try {
        if (zip === null) return await upload(jobId, undefined);
        await unpackHere(folder, zip, limits);
        await upload(jobId, await here.stream(['tar', '-cf', '-', '-C', folder, '.'], { signal: never }));
      } finally {
        // What cannot be removed now, the next try removes.
        await removeTree(folder).catch(() => undefined);
      }
    },

    async measureBytes(jobId) {
      return Number(await runScript('measure the files of a job', measureScript, [homeOf(jobId)]));
    },

    async list() {
      await mkdir(staging, { recursive: true, mode: 0o700 });
      const remote = (await runScript('list the files of jobs', listScript, [root])).split('\n');
      const names = [...remote, ...(await readdir(staging))].map((name) => name.replace(/\.(partial|removed)$/, ''));
      return [...new Set(names)].filter(isJobId);
    },

    remove,
  };
}
