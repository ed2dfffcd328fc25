import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Holds one folder for each build. */
export const buildRoot = join(root, 'dist');

/** The folder of the build of the current sources, whether it exists or not. Any change of the input changes its name. */
export function buildFolder() {
  const sources = ['src', 'clients/typescript/src'].map((name) => join(root, name));
  const files = sources.flatMap((folder) => readdirSync(folder, { recursive: true }).map((name) => join(folder, name)));
  const otherInputs = ['package-lock.json', 'scripts/build.mjs'].map((name) => join(root, name));
  const hash = createHash('sha256');
  for (const file of [...files.sort(), ...otherInputs]) {
    const { size, mtimeMs } = statSync(file);
    hash.update(`${file} ${size} ${mtimeMs}\n`);
  }
  return join(buildRoot, hash.digest('hex').slice(0, 16));
}
