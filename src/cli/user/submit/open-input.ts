import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type FolderSource, openFolder, openZip, type UploadSource } from '#client';
import { errnoCode } from '../../../domain/errors.ts';
import { usageError } from '../errors.ts';

/** The input files of a job. `source` sends them; a folder is zipped while it is sent. */
export type OpenedInput =
  | { kind: 'none' }
  | { kind: 'zip'; path: string; source: UploadSource }
  | { kind: 'folder'; path: string; source: FolderSource };

/** Opens a folder or a zip, and lists the files of a folder. Nothing is checked yet. */
export async function openJobInput(path: string | undefined): Promise<OpenedInput> {
  if (path === undefined) return { kind: 'none' };
  const full = resolve(path);
  const stats = await stat(full).catch((error) => {
    const problem = errnoCode(error) === 'ENOENT' ? 'does not exist' : `cannot be read (${errnoCode(error)})`;
    throw usageError(`${path} ${problem}.`, 'Name a folder or a zip file.');
  });
  if (stats.isFile()) return { kind: 'zip', path: full, source: await openZip(full) };
  if (!stats.isDirectory()) throw usageError(`${path} is neither a folder nor a file.`, 'Name a folder or a zip file.');
  return { kind: 'folder', path: full, source: await openFolder(full) };
}

/** The folder for the state of a sweep. */
export function folderOf(input: Exclude<OpenedInput, { kind: 'none' }>): string {
  return input.kind === 'folder' ? input.path : dirname(input.path);
}
