import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Holds one folder for each build. */
export const buildRoot = join(root, 'dist');

const sourceFolders = ['src', 'scripts', 'clients/typescript/src', 'clients/python/bursar'];

/** The folder of the build of the current sources, whether it exists or not. Any change of the input changes its name. */
export function buildFolder() {
  const files = sourceFolders.flatMap((name) => {
    const folder = join(root, name);
    // Python writes its cache beside the sources.
    const names = readdirSync(folder, { recursive: true }).filter((file) => !file.includes('__pycache__'));
    return names.map((file) => join(folder, file));
  });
  const hash = createHash('sha256');
  const otherInputs = ['package.json', 'package-lock.json'].map((name) => join(root, name));
  for (const file of [...files.sort(), ...otherInputs]) {
    const { size, mtimeMs } = statSync(file);
    hash.update(`${file} ${size} ${mtimeMs}\n`);
  }
  return join(buildRoot, hash.digest('hex').slice(0, 16));
}
