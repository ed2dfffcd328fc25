import { BursarError } from '../../domain/errors.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { startFileOf } from '../../domain/jobs/start-file.ts';
import { toPrintable } from './zip-errors.ts';
import { createLayout } from './zip-layout.ts';

/** The part of a job request that says which input files the job needs. */
export type InputRequest = Pick<JobRequest, 'command' | 'tool' | 'entry'>;

/** A file or folder that will be in a zip. The path is relative, with slashes. */
export interface FolderEntry {
  path: string;
  kind: 'file' | 'folder';
  bytes: number;
}

/** Returns the error for files that lack the one that the job starts with; null if they have it, or if it needs none. */
export function findStartFileError(request: InputRequest, entries: readonly FolderEntry[] | null): BursarError | null {
  const startFile = startFileOf(request);
  if (startFile === null) return null;
  if (entries === null) return missingStartFile(request, startFile, null);
  const layout = createLayout<FolderEntry>(startFile);
  for (const entry of entries) layout.add(entry);
  const { start, ...contents } = layout.read();
  return start === null ? missingStartFile(request, startFile, contents) : null;
}

/** The files of an input, for the message. */
interface Contents {
  fileCount: number;
  /** The first ones. */
  fileNames: readonly string[];
}

export function missingStartFile({ tool }: InputRequest, name: string, input: Contents | null): BursarError {
  const user = tool === null ? 'the command starts' : `the tool ${tool} reads first`;
  const remedy = tool === null ? `Add ${name}, or correct the command` : `Add ${name}`;
  const problem =
    input === null
      ? `The request has no zip, so it lacks ${name}, which ${user}. Send a zip with ${name} as the body`
      : `The zip lacks ${name}, which ${user}. ${describeContents(input)}. ${remedy}`;
  const fields = [{ field: tool === null ? 'command' : 'tool', message: `${name} is not in the zip` }];
  return new BursarError('start_file_missing', `${problem}.`, { fields });
}

function describeContents({ fileNames, fileCount }: Contents): string {
  if (fileCount === 0) return 'It contains no files';
  const names = fileNames.map((name) => toPrintable(name, 80)).join(', ');
  const more = fileCount - fileNames.length;
  return `It contains ${names}${more > 0 ? ` and ${more} more` : ''}`;
}
