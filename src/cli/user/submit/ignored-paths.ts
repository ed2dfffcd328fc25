import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoCode } from '../../../domain/errors.ts';
import { createIgnoreRules, type IsIgnored, ignoreFileName } from '../../../files/zip/ignore-rules.ts';

/** Reads .bursarignore of a folder, which has the syntax of .gitignore. */
export async function readIgnoredPaths(folder: string): Promise<IsIgnored> {
  return createIgnoreRules(await readIgnoreFile(folder));
}

async function readIgnoreFile(folder: string): Promise<string> {
  try {
    return await readFile(join(folder, ignoreFileName), 'utf8');
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return '';
    throw error;
  }
}
