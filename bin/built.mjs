// What was built from the sources as they are now, if it was: one folder of a few files, which start in half the time.
import { createHash } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

export const builtFolder = join(root, 'dist');

/** Where the sources as they are now are, or would be, once built: any change of what goes into it is another folder. */
export function builtFrom() {
  const sources = join(root, 'src');
  const files = readdirSync(sources, { recursive: true }).map((name) => join(sources, name));
  const others = ['package-lock.json', 'scripts/build.mjs'].map((name) => join(root, name));
  const stamp = createHash('sha256');
  for (const file of [...files.sort(), ...others]) {
    const { size, mtimeMs } = statSync(file);
    stamp.update(`${file} ${size} ${mtimeMs}\n`);
  }
  return join(builtFolder, stamp.digest('hex').slice(0, 16));
}
