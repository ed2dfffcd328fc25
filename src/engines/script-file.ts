import { open, realpath, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { findScriptPathError, scriptErrors } from '../domain/jobs/command.ts';
import { isInside } from '../domain/systems/isolation.ts';
import { fileSystemErrorCode, toFileSystemError } from '../files/file-system-errors.ts';

/** `rejected` is the reason why the script cannot run. */
export type ScriptFile = { path: string; firstLine: string } | { rejected: string };

/**
 * Reads the first line of the script of a job on this host. The script must be in the folder that the job starts in. Throws
 * a transient error if the file system fails.
 */
export async function readScriptFile(directory: string, script: string): Promise<ScriptFile> {
  try {
    return await readScript(directory, script);
  } catch (error) {
    throw toFileSystemError('read the script of the job', error);
  }
}

async function readScript(directory: string, script: string): Promise<ScriptFile> {
  const pathError = findScriptPathError(script);
  if (pathError !== null) return { rejected: pathError };
  const path = resolve(directory, script);
  const [realDirectory, target] = await Promise.all([findRealPath(directory), findRealPath(path)]);
  if (realDirectory === null || target === null) return { rejected: scriptErrors.absent(script) };
  if (!isInside(target, realDirectory)) return { rejected: scriptErrors.outside(script) };
  if (!(await isFile(target))) return { rejected: scriptErrors.absent(script) };
  const firstLine = await readFirstLine(target);
  const rejected = firstLineError(script, firstLine);
  return rejected === null ? { path, firstLine } : { rejected };
}

async function readFirstLine(path: string): Promise<string> {
  const file = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1024), 0, 1024, 0);
    return buffer.toString('utf8', 0, bytesRead).split('\n', 1)[0] ?? '';
  } finally {
    await file.close();
  }
}

async function findRealPath(path: string): Promise<string | null> {
  try {
    return await realpath(path);
  } catch (error) {
    // A job must not be rejected because its file system does not answer at the moment.
    if (absentCodes.has(fileSystemErrorCode(error) ?? '')) return null;
    throw error;
  }
}

const absentCodes = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'EACCES']);

export const isFile = (path: string) =>
  stat(path)
    .then((stats) => stats.isFile())
    .catch(() => false);

/** Checks the first line of a script, which must name its interpreter. Returns null if it is valid. */
export function firstLineError(script: string, firstLine: string): string | null {
  if (!firstLine.startsWith('#!')) {
    return `${script} does not name its interpreter: add a first line such as #!/bin/bash`;
  }
  if (firstLine.endsWith('\r')) {
    return `${script} has Windows line endings: convert it to Unix line endings (dos2unix ${script})`;
  }
  return /^#!\s*$/.test(firstLine) ? `${script} names no interpreter after #!: write, for example, #!/bin/bash` : null;
}
