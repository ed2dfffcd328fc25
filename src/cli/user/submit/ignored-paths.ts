import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import ignore from 'ignore';
import { errnoCode } from '../../../domain/errors.ts';
import { settingsFileName } from './settings.ts';

const ignoreFileName = '.bursarignore';

/** Left out of every zip, unless a line of .bursarignore brings it back, such as `!bursar.yaml`. */
export const ignoredByDefault = ['.git', '/.bursar', `/${ignoreFileName}`, `/${settingsFileName}`, '.DS_Store'];

/** Tells whether a path is left out of the zip. Paths are relative to the folder, with slashes. */
export type IsIgnored = (path: string, kind: 'file' | 'folder') => boolean;

/** Reads .bursarignore of a folder, which has the syntax of .gitignore. */
export async function readIgnoredPaths(folder: string): Promise<IsIgnored> {
  const rules = ignore()
    .add(ignoredByDefault)
    .add(await readIgnoreFile(folder));
  return (path, kind) => rules.ignores(kind === 'folder' ? `${path}/` : path);
}

async function readIgnoreFile(folder: string): Promise<string> {
  try {
    return await readFile(join(folder, ignoreFileName), 'utf8');
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return '';
    throw error;
  }
}
