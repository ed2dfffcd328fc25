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
  workspacesOf: ReadonlyMap<string, Workspaces>;
}

/** What is asked for: something in the workspace of a job, by whom, and until when. */
export interface FileQuestion {
  owner: Owner;
  place: Required<PathScope>;
  jobId: string;
  /** As it stands in the request, decoded; empty for the whole. */
  path: string;
  /** Aborted when nobody waits for it any more. */
  signal: AbortSignal;
}

/** The files in a folder of a job's workspace, and below. Costs the scheduler nothing, like all that follows. */
export async function listFiles(deps: FileDeps, question: FileQuestion): Promise<AsyncIterable<ListedFile>> {
  const { workspaces, path } = await lookUp(deps, question);
  return workspaces.listFiles(question.jobId, path, question.signal);
}

export async function openFile(deps: FileDeps, question: FileQuestion): Promise<OpenFile> {
  const { workspaces, path } = await lookUp(deps, question);
  if (path.length === 0) throw fileNotFound();
  return await workspaces.openFile(question.jobId, path, question.signal);
}

/** A folder of a job's workspace as a zip, made while it is read. */
export async function archiveFiles(deps: FileDeps, question: FileQuestion): Promise<Readable> {
  const { workspaces, path } = await lookUp(deps, question);
  return await writeZip(workspaces.archive(question.jobId, path, question.signal));
}

async function lookUp(deps: FileDeps, { owner, place, jobId, path }: FileQuestion) {
  const job = await requireJob(deps.db, deps.systems, owner, place, jobId);
  const names = parseFilePath(path);
  if (names === undefined) throw fileNotFound();
  return { workspaces: workspacesOf(deps, job), path: names };
}

/** Throws when the files of the job have been deleted. */
export function workspacesOf({ workspacesOf: known }: FileDeps, job: JobRecord): Workspaces {
  const workspaces = known.get(job.project.hpc);
  if (workspaces === undefined || job.status.state === 'deleted') {
    throw new BursarError('files_deleted', 'The files of this job have been deleted, what it printed with them.');
  }
  return workspaces;
}
