import type { Readable } from 'node:stream';
import { BursarError } from '../../domain/errors.ts';
import { parseFilePath } from '../../files/safe-paths.ts';
import { fileNotFound, type ListedFile, type OpenFile } from '../../files/workspaces/workspace-reader.ts';
import type { Workspaces } from '../../files/workspaces/workspaces.ts';
import { writeZip } from '../../files/zip/zip-writer.ts';
import type { Db } from '../../store/database/handle.ts';
import type { JobRecord } from '../../store/jobs/jobs.ts';
import type { Owner, PathScope, Systems } from '../scope.ts';
import { requireJob } from './find-job.ts';

export type { ListedFile, OpenFile } from '../../files/workspaces/workspace-reader.ts';

export interface FileDeps {
  db: Db;
  systems: Systems;
  workspacesByHpc: ReadonlyMap<string, Workspaces>;
}

/** A request for a file or folder in the workspace of a job. */
export interface FileRequest {
  owner: Owner;
  project: Required<PathScope>;
  jobId: string;
  /** Percent-decoded, relative to the workspace. Empty for the whole workspace. */
  path: string;
  /** Aborted when the client has disconnected. */
  signal: AbortSignal;
}

/** Lists the files in a folder of a job's workspace and in its subfolders. */
export async function listFiles(deps: FileDeps, request: FileRequest): Promise<AsyncIterable<ListedFile>> {
  const { workspaces, path } = await resolvePath(deps, request);
  return workspaces.listFiles(request.jobId, path, request.signal);
}

export async function openFile(deps: FileDeps, request: FileRequest): Promise<OpenFile> {
  const { workspaces, path } = await resolvePath(deps, request);
  if (path.length === 0) throw fileNotFound();
  return await workspaces.openFile(request.jobId, path, request.signal);
}

/** A folder of a job's workspace as a zip, which is created while it is read. */
export async function archiveFiles(deps: FileDeps, request: FileRequest): Promise<Readable> {
  const { workspaces, path } = await resolvePath(deps, request);
  return await writeZip(workspaces.archive(request.jobId, path, request.signal));
}

async function resolvePath(deps: FileDeps, { owner, project, jobId, path }: FileRequest) {
  const job = await requireJob(deps.db, deps.systems, owner, project, jobId);
  const names = parseFilePath(path);
  if (names === undefined) throw fileNotFound();
  return { workspaces: requireWorkspaces(deps, job), path: names };
}

/** Throws if the files of the job have been deleted. */
export function requireWorkspaces({ workspacesByHpc }: FileDeps, job: JobRecord): Workspaces {
  const workspaces = workspacesByHpc.get(job.project.hpc);
  if (workspaces === undefined || job.status.state === 'deleted') {
    throw new BursarError('files_deleted', 'The files and logs of this job have been deleted.');
  }
  return workspaces;
}
