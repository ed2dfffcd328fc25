import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';
import { isJobId, requireJobId } from '../safe-paths.ts';
import { unpackZip } from '../zip/unzip.ts';
import type { ZipLimits } from '../zip/zip-directory.ts';
import type { ZipSource } from '../zip/zip-source.ts';
import { createLocalReader } from './local-reader.ts';
import { measureTree } from './measure-tree.ts';
import { removeTree } from './remove-tree.ts';
import type { WorkspaceReader } from './workspace-reader.ts';

export interface WorkspacePaths {
  /** The job's working directory: the unpacked zip. */
  directory: string;
  stdout: string;
  stderr: string;
}

/** The folders that jobs run in. A job id is one workspace; calls for the same one do not overlap. */
export interface Workspaces extends WorkspaceReader {
  pathsOf(jobId: string): WorkspacePaths;

  /**
   * Makes the workspace, with the files of the zip, or with none; one that is there stays, for it is whole, and its job
   * may be running in it. After a failure or a crash there is none, never a part of one: repeat it, any number of
   * times, even by several at once.
   *
   * Failures: `invalid_zip`, and `unavailable` (transient) when the disk is full.
   */
  stage(jobId: string, zip: ZipSource | null, limits: ZipLimits): Promise<void>;

  /** The bytes in the job's files, its output included, as far as they can be seen; 0 without a workspace. */
  measureBytes(jobId: string): Promise<number>;

  /** The ids of the jobs that something is kept of here. */
  list(): Promise<string[]>;

  /**
   * After success nothing of the job is left here, whether there was something or not. After a failure or a crash
   * the workspace is there whole or not at all, and repeating removes the rest.
   */
  remove(jobId: string): Promise<void>;
}

export function createWorkspaces(root: string): Workspaces {
  const homeOf = (jobId: string) => join(root, requireJobId(jobId));

  async function remove(jobId: string) {
    const home = homeOf(jobId);
    const removed = `${home}.removed`;
    await removeTree(removed);
    // Removing takes a while: it happens under another name, so that half a workspace is never taken for a whole.
    await renameIfThere(home, removed);
    await removeTree(removed);
    await removeTree(`${home}.partial`);
  }

  return {
    ...createLocalReader(root),

    pathsOf(jobId) {
      const home = homeOf(jobId);
      return { directory: join(home, 'files'), stdout: join(home, 'stdout'), stderr: join(home, 'stderr') };
    },

    async stage(jobId, zip, limits) {
      const home = homeOf(jobId);
      const partial = `${home}.partial`;
      // A name of its own: a try that lingers from before cannot mix its files into this one's.
      const files = join(partial, randomUUID(), 'files');
      try {
        await removeTree(partial);
        await mkdir(files, { recursive: true, mode: 0o700 });
        if (zip !== null) await unpackZip(zip, files, limits);
        await renameUnlessThere(dirname(files), home);
      } catch (error) {
        throw toFileSystemError('make the workspace of the job', error);
      } finally {
        // The first trouble is the one to tell of; what cannot be removed now, the next try removes.
        await removeTree(partial).catch(() => undefined);
      }
    },

    async measureBytes(jobId) {
      return await measureTree(homeOf(jobId));
    },

    async list() {
      await mkdir(root, { recursive: true, mode: 0o700 });
      const names = (await readdir(root)).map((name) => name.replace(/\.(partial|removed)$/, ''));
      return [...new Set(names)].filter(isJobId);
    },

    remove,
  };
}

/** A workspace is never empty, so that the system itself refuses to put another in its place. */
async function renameUnlessThere(from: string, to: string) {
  try {
    await rename(from, to);
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST'].includes(fileSystemErrorCode(error) ?? '')) throw error;
  }
}

async function renameIfThere(from: string, to: string) {
  try {
    await rename(from, to);
  } catch (error) {
    if (fileSystemErrorCode(error) !== 'ENOENT') throw toFileSystemError('remove the files of a job', error);
  }
}
