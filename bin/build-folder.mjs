import { createHash } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Holds one folder for each build. */
export const buildRoot = join(root, 'dist');

/** An installed release has no sources, and one build. */
export const isRelease = !existsSync(join(root, 'src'));
export const releaseBuild = 'dist/release';

const sourceFolders = ['src', 'scripts', 'clients/typescript/src', 'clients/python/bursar', 'web/src', 'web/public'];
const otherInputs = [
  'package.json',
  'package-lock.json',
  'clients/python/README.md',
  'clients/python/pyproject.toml',
  'clients/typescript/README.md',
  'clients/typescript/build.mjs',
  'clients/typescript/package.json',
  'web/build.mjs',
  'web/index.html',
  'web/package.json',
  'web/vite.config.ts',
].map((name) => join(root, name));

/** The folder of the build of the current sources, whether it exists or not. Any change of the input changes its name. */
export function buildFolder() {
  if (isRelease) return join(root, releaseBuild);
  const files = [...sourceFolders.map((name) => join(root, name)).flatMap(listFiles), ...otherInputs];
  const versions = files.map((file) => {
    const { size, mtimeMs } = statSync(file);
    return `${file} ${size} ${mtimeMs}`;
  });
  const hash = createHash('sha256').update(versions.sort().join('\n'));
  return join(buildRoot, hash.digest('hex').slice(0, 16));
}

/** Three times as fast as the recursive `readdirSync`. This runs at every start. */
function listFiles(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    // Python writes its cache beside the sources.
    if (entry.name === '__pycache__') return [];
    const path = `${folder}/${entry.name}`;
    return entry.isDirectory() ? listFiles(path) : [path];
  });
}
