import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';
import { type CheckedZip, readContent, withZip, type ZipSource } from './zip-content.ts';
import type { ZipEntry, ZipLimits } from './zip-entries.ts';
import { invalidEntry } from './zip-errors.ts';

/**
 * Unpacks a zip into a folder, which must exist, be empty, and be used by nobody else meanwhile. After success the folder
 * contains the whole zip, and every file has the size and checksum that the zip declares. After a failure or a crash
 * some files may exist, and the caller deletes them. Nothing is ever written outside the folder, and never more than
 * `maxUnpackedBytes`. Modes are 0700 for folders, 0644 or 0755 for files, minus the umask.
 *
 * Failures: `invalid_zip` for everything that `withZip` rejects, then without having written anything, and for contents
 * that contradict the directory.
 */
export async function unpackZip(source: ZipSource, directory: string, limits: ZipLimits): Promise<void> {
  await withZip(source, limits, async (zip) => {
    let lastFolder = directory;
    for (const entry of zip.entries) {
      const target = join(directory, entry.path);
      const folder = entry.kind === 'folder' ? target : dirname(target);
      try {
        if (folder !== lastFolder) await mkdir(folder, { recursive: true, mode: 0o700 });
        lastFolder = folder;
        if (entry.kind === 'file') await unpackFile(zip, entry, target);
      } catch (error) {
        throw toUnpackError(entry, error);
      }
    }
  });
}

async function unpackFile(zip: CheckedZip, entry: ZipEntry, target: string): Promise<void> {
  // Exclusive creation (O_EXCL) also does not follow a link.
  const file = await open(target, 'wx', entry.isExecutable ? 0o755 : 0o644);
  try {
    for await (const chunk of readContent(zip, entry)) await file.appendFile(chunk);
  } finally {
    await file.close();
  }
}

/** Errors for names that the file system rejects, or does not distinguish (such as `a` and `A`). */
const nameErrorCodes = new Set(['EEXIST', 'EILSEQ', 'EINVAL', 'EISDIR', 'ENAMETOOLONG', 'ENOTDIR']);

function toUnpackError({ path }: ZipEntry, error: unknown): unknown {
  const code = fileSystemErrorCode(error);
  if (code === undefined || !nameErrorCodes.has(code)) return toFileSystemError('unpack the zip file', error);
  const problem = `has a name that the file system does not accept (${code})`;
  return invalidEntry(path, problem, 'Rename it and create the zip again.', error);
}
