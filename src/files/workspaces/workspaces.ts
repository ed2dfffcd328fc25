import { randomUUID } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { mkdir, readdir, rename, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { toChargedBytes, type WorkspaceUsage } from '../../domain/jobs/file-limits.ts';
import { ignoreErrors, toFileSystemError } from '../file-system-errors.ts';
import { isJobId, requireJobId } from '../safe-paths.ts';
import { unpackZip } from '../zip/unzip.ts';
import type { ZipSource } from '../zip/zip-content.ts';
import type { ZipLimits } from '../zip/zip-entries.ts';
import { createLocalReader, type LocalReaderOptions } from './local-reader.ts';
import { removeTree } from './remove-tree.ts';
import { type FileName, openWithAccess } from './safe-open.ts';
import { walkFolder } from './walk-folder.ts';
import type { WorkspaceReader } from './workspace-reader.ts';

export interface WorkspacePaths {
  /** The job's working directory, with the unpacked zip. */
  directory: string;
  stdout: string;
  stderr: string;
}

/**
 * Manages the folders that jobs run in, one per job. Except for `stage`, calls for the same job must not overlap. On
 * another host, an aborted signal ends a call with `unavailable`; the guarantees after a failure hold.
 */
export interface Workspaces extends WorkspaceReader {
  pathsOf(jobId: string): WorkspacePaths;

  /**
   * Creates the workspace, with the files of the zip or empty. An existing workspace is left as it is: it is complete,
   * and its job may be running in it. After a failure or a crash no workspace exists, not even a partial one. The call
   * can be repeated any number of times, also concurrently. Uploads to another host are divided fairly between the
   * owners of the jobs.
   *
   * Failures: `invalid_zip`, and `storage_unavailable` (transient) if the disk is full.
   */
  stage(jobId: string, zip: ZipSource | null, limits: ZipLimits, signal: AbortSignal, owner?: string): Promise<void>;

  /**
   * Measures the files and logs of jobs, as far as they are readable, in few commands for any number of jobs. A workspace
   * that does not exist is empty. With `maxEntries`, the figures of a workspace that has more are lower bounds.
   */
  measure(jobIds: readonly string[], signal: AbortSignal, maxEntries?: number): Promise<Map<string, WorkspaceUsage>>;

  /** Returns the ids of all jobs with any files here, including partial and partly removed workspaces. */
  list(signal: AbortSignal): Promise<string[]>;

  /**
   * Deletes the workspace, if there is one, and everything else of the job here. After a failure or a crash the
   * workspace is complete or gone. Repeat the call to delete the rest.
   */
  remove(jobId: string, signal: AbortSignal): Promise<void>;
}

export function pathsIn(workspace: string): WorkspacePaths {
  return {
    directory: join(workspace, 'files'),
    stdout: join(workspace, 'stdout'),
    stderr: join(workspace, 'stderr'),
  };
}

export function createWorkspaces(root: string, options: LocalReaderOptions = {}): Workspaces {
  const workspacePath = (jobId: string) => join(root, requireJobId(jobId));

  return {
    ...createLocalReader(root, options),

    pathsOf: (jobId) => pathsIn(workspacePath(jobId)),

    async stage(jobId, zip, limits) {
      const workspace = workspacePath(jobId);
      const partial = `${workspace}.partial`;
      // A unique folder for each attempt: an earlier attempt that still runs cannot add files to this one.
      const files = join(partial, randomUUID(), 'files');
      try {
        const firstCreated = await mkdir(files, { recursive: true, mode: 0o700 });
        // An earlier attempt was interrupted.
        if (firstCreated === dirname(files)) {
          await removeTree(partial);
          await mkdir(files, { recursive: true, mode: 0o700 });
        }
        if (zip !== null) await unpackZip(zip, files, limits);
        // A workspace is never empty, so rename(2) itself refuses to replace one.
        await ignoreErrors(rename(dirname(files), workspace), 'ENOTEMPTY', 'EEXIST');
      } catch (error) {
        throw toFileSystemError('create the workspace of the job', error);
      } finally {
        // After success it is empty. Errors are ignored: the original error is the one to report, and the next attempt deletes
        // the rest.
        await rmdir(partial).catch(() => removeTree(partial).catch(() => undefined));
      }
    },

    async measure(jobIds, signal, maxEntries = Number.POSITIVE_INFINITY) {
      const usages = new Map<string, WorkspaceUsage>();
      for (const jobId of jobIds) usages.set(jobId, await measureTree(workspacePath(jobId), signal, maxEntries));
      return usages;
    },

    async list() {
      await mkdir(root, { recursive: true, mode: 0o700 });
      return toJobIds(await readdir(root));
    },

    async remove(jobId) {
      const workspace = workspacePath(jobId);
      const removed = `${workspace}.removed`;
      await removeTree(removed);
      // Deleting takes time. The rename ensures that a partly deleted workspace is never mistaken for a complete one.
      await ignoreErrors(rename(workspace, removed), 'ENOENT').catch((error) => {
        throw toFileSystemError('remove the files of a job', error);
      });
      await removeTree(removed);
      await removeTree(`${workspace}.partial`);
    },
  };
}

/** Returns the job ids, each once, of names such as `<job id>.partial`. */
export function toJobIds(names: readonly string[]): string[] {
  return [...new Set(names.map((name) => name.replace(/\.(partial|removed)$/, '')))].filter(isJobId);
}

/**
 * Counts everything in a folder tree of any depth, and sums the sizes of the regular files. Links are not followed, and a
 * file with several hard links is summed once. A folder that its owner may not list or search is made readable: a job
 * could hide its files there, because it can write to such a folder. A folder that does not exist counts 0, as does one
 * that another user has locked. Stops after more than `maxEntries`.
 */
export async function measureTree(path: string, signal: AbortSignal, maxEntries: number): Promise<WorkspaceUsage> {
  const summedIds = new Set<string>();
  const usage = { bytes: 0, entries: 0 };
  const openPath = (folder: FileName) => openWithAccess(folder, 0o500);
  for await (const { stats } of walkFolder(path, [], { maxDepth: Number.POSITIVE_INFINITY, openPath })) {
    signal.throwIfAborted();
    usage.entries += 1;
    if (stats.isFile() && addIfNew(stats, summedIds)) {
      usage.bytes += toChargedBytes(Number(stats.size), Number(stats.blocks));
    }
    if (usage.entries > maxEntries) break;
  }
  return usage;
}

/** Returns false if the file was summed before. Stores only files with several hard links, to save memory. */
function addIfNew({ dev, ino, nlink }: BigIntStats, summedIds: Set<string>): boolean {
  if (nlink === 1n) return true;
  const id = `${dev}:${ino}`;
  if (summedIds.has(id)) return false;
  summedIds.add(id);
  return true;
}
