import { BursarError } from '../../domain/errors.ts';
import type { JobRequest } from '../../domain/jobs/job.ts';
import { startFileOf } from '../../domain/jobs/start-file.ts';
import type { ZipEntry } from './zip-entries.ts';
import { toPrintable } from './zip-errors.ts';

/** The part of a job request that says which input files the job needs. */
export type InputRequest = Pick<JobRequest, 'command' | 'tool' | 'entry'>;

/** A file or folder that will be in a zip. The path is relative, with slashes. */
export interface FolderEntry {
  path: string;
  kind: 'file' | 'folder';
  bytes: number;
}

/** The files of an input, for messages. */
interface Contents {
  fileCount: number;
  /** The first ones. */
  fileNames: readonly string[];
}

interface Layout<T> extends Contents {
  /** The folder that everything is in, as in the zips that file managers create; null if there is none. */
  topFolder: string | null;
  /** The start file; null if there is none. It is in `folder`: '' for the top of the zip, or else the top folder. */
  start: { folder: string; entry: T } | null;
}

const maxFileNames = 5;

/** Finds the top folder and the start file in a zip, or in a folder that will become one. */
export function readLayout<T extends Pick<ZipEntry, 'path' | 'kind'>>(
  entries: Iterable<T>,
  startFile: string | null,
): Layout<T> {
  const fileNames: string[] = [];
  let fileCount = 0;
  /** Undefined before the first entry, null if the entries have no common folder. */
  let commonFolder: string | null | undefined;
  let atTop: T | undefined;
  let inFolder: T | undefined;
  for (const entry of entries) {
    const { path, kind } = entry;
    if (path === '' || isFileManagerMetadata(path)) continue;
    const slash = path.indexOf('/');
    const topName = slash === -1 ? path : path.slice(0, slash);
    const folder = slash === -1 && kind === 'file' ? null : topName;
    if (commonFolder === undefined) commonFolder = folder;
    else if (commonFolder !== folder) commonFolder = null;
    if (kind === 'folder') continue;
    if (path === startFile) atTop = entry;
    else if (path.slice(slash + 1) === startFile) inFolder ??= entry;
    if (fileCount++ < maxFileNames) fileNames.push(path);
  }
  const topFolder = commonFolder ?? null;
  const layout = { topFolder, fileCount, fileNames };
  if (atTop !== undefined) return { ...layout, start: { folder: '', entry: atTop } };
  // Of several top folders none is preferred.
  if (topFolder === null || inFolder === undefined) return { ...layout, start: null };
  return { ...layout, start: { folder: topFolder, entry: inFolder } };
}

/** Files that macOS adds to zips and folders. */
function isFileManagerMetadata(path: string): boolean {
  return path === '__MACOSX' || path.startsWith('__MACOSX/') || path === '.DS_Store' || path.endsWith('/.DS_Store');
}

/** Returns the error for files that lack the one that the job starts with; null if they have it, or if it needs none. */
export function findStartFileError(request: InputRequest, entries: readonly FolderEntry[] | null): BursarError | null {
  const startFile = startFileOf(request);
  if (startFile === null) return null;
  const layout = entries && readLayout(entries, startFile);
  return layout?.start ? null : missingStartFile(request, startFile, layout);
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
