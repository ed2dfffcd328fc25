import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { FolderEntry } from '../../../files/zip/check-input.ts';
import { invalidEntry } from '../../../files/zip/zip-errors.ts';
import type { IsIgnored } from './ignored-paths.ts';

/**
 * Lists the files and folders of a folder that are not ignored, in the order of their names. A link to a file counts as the
 * file, because a zip for Bursar has no links. Throws `invalid_zip` for a link to a folder, a broken link, or a device.
 */
export async function listFolder(folder: string, isIgnored: IsIgnored): Promise<FolderEntry[]> {
  const entries: FolderEntry[] = [];

  async function add(parent: string): Promise<void> {
    const children = await readdir(join(folder, parent), { withFileTypes: true });
    for (const child of children.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = parent === '' ? child.name : `${parent}/${child.name}`;
      const kind = child.isDirectory() ? 'folder' : 'file';
      if (isIgnored(path, kind)) continue;
      if (kind === 'folder') {
        entries.push({ path, kind, bytes: 0 });
        await add(path);
      } else entries.push({ path, kind, bytes: await measureFile(join(folder, path), path, child.isSymbolicLink()) });
    }
  }

  await add('');
  return entries;
}

async function measureFile(file: string, path: string, isLink: boolean): Promise<number> {
  const leaveOut = 'Leave it out: add it to .bursarignore.';
  const stats = await stat(file).catch((error: NodeJS.ErrnoException) => {
    throw isLink && error.code === 'ENOENT'
      ? invalidEntry(path, 'is a link to a file that is missing', leaveOut)
      : error;
  });
  if (stats.isFile()) return stats.size;
  const problem = stats.isDirectory() ? 'is a link to a folder' : 'is neither a file nor a folder';
  throw invalidEntry(path, problem, stats.isDirectory() ? `Copy the folder, or leave it out.` : leaveOut);
}
