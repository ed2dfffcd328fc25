import type { Readable } from 'node:stream';
import { BursarError } from '../../domain/errors.ts';
import { parseFilePath } from '../../files/safe-paths.ts';
import {
  fileNotFound,
  type ListedFile,
  type OpenFile,
  type WorkspaceReading,
} from '../../files/workspaces/workspace-reader.ts';
import type { Workspaces } from '../../files/workspaces/workspaces.ts';
import { writeZip } from '../../files/zip/zip-writer.ts';
import { findJobState, type JobRecord } from '../../store/jobs/jobs.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { type JobPath, requireJob } from './find-job.ts';

export type { ListedFile, OpenFile } from '../../files/workspaces/workspace-reader.ts';

export type FileDeps = Pick<ServiceDeps, 'db' | 'systems' | 'workspacesByHpc'>;
type OpenFileDeps = FileDeps & Pick<ServiceDeps, 'fileOpenings'>;

/** A request for something that a job has produced. */
export type Reading = JobPath & WorkspaceReading;

/** A request for a file or folder in the workspace of a job. */
export interface FileRequest extends Reading {
  /** Percent-decoded, relative to the workspace. Empty for the whole workspace. */
  path: string;
}

/** Lists the files in a folder of a job's workspace and in its subfolders. */
export async function listFiles(deps: FileDeps, request: FileRequest): Promise<AsyncIterable<ListedFile>> {
  const { job, workspaces, path } = await resolvePath(deps, request);
  return orMissing(deps, job, request, workspaces.listFiles(request, path));
}

export async function openFile(deps: OpenFileDeps, request: FileRequest): Promise<OpenFile> {
  const open = async () => {
    const { job, workspaces, path } = await resolvePath(deps, request);
    if (path.length === 0) throw fileNotFound();
    try {
      return await workspaces.openFile(request, path);
    } catch (error) {
      await requireFilesPresent(deps, job, request);
      throw error;
    }
  };
  // For each system apart, because one that hangs must not delay the files on another.
  return await deps.fileOpenings.run(open, { key: `${request.user} ${request.hpc}` });
}

/** A folder of a job's workspace as a zip, which is created while it is read. */
export async function archiveFiles(deps: FileDeps, request: FileRequest): Promise<Readable> {
  const { job, workspaces, path } = await resolvePath(deps, request);
  return await writeZip(orMissing(deps, job, request, workspaces.archive(request, path)));
}

async function resolvePath(deps: FileDeps, request: FileRequest) {
  const job = await requireJob(deps, request);
  const names = parseFilePath(request.path);
  if (names === undefined) throw fileNotFound();
  return { job, workspaces: requireWorkspaces(deps, job), path: names };
}

/** Throws if the files of the job have been deleted. */
export function requireWorkspaces({ workspacesByHpc }: FileDeps, job: JobRecord): Workspaces {
  const workspaces = workspacesByHpc.get(job.project.hpc);
  if (workspaces === undefined || job.status.state === 'deleted') throw filesDeleted();
  return workspaces;
}

/**
 * Throws if a job that an engine has accepted has no workspace: its file system is not mounted, or the database was
 * restored or copied without the files. Call it only after nothing was found, because it asks the file system once more.
 */
export async function requireFilesPresent(deps: FileDeps, job: JobRecord, reading: Reading): Promise<void> {
  if (job.engineRef === null || (await requireWorkspaces(deps, job).hasWorkspace(reading))) return;
  if ((await findJobState(deps.db, job.id)) === 'deleted') throw filesDeleted();
  throw new BursarError(
    'files_missing',
    'The files and logs of this job were not deleted, but they are not where this server expects them. Ask its operators ' +
      'whether the file system of the jobs is mounted, and whether a restored database has its workspaces.',
    { retryAfterSeconds: 60 },
  );
}

/** Yields the items. If there are none, makes sure that the files are not missing. */
async function* orMissing<T>(
  deps: FileDeps,
  job: JobRecord,
  reading: Reading,
  items: AsyncIterable<T>,
): AsyncGenerator<T> {
  let isEmpty = true;
  try {
    for await (const item of items) {
      isEmpty = false;
      yield item;
    }
  } catch (error) {
    // A folder of a missing workspace is reported as an unknown file.
    if (isEmpty) await requireFilesPresent(deps, job, reading);
    throw error;
  }
  if (isEmpty) await requireFilesPresent(deps, job, reading);
}

function filesDeleted(): BursarError {
  return new BursarError('files_deleted', 'The files and logs of this job have been deleted.');
}
