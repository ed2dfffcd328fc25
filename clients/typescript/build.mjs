// Builds the npm package: ES modules and their types. `npm pack <folder>` makes a tarball of the result.
import { execFile } from 'node:child_process';
import { copyFile, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';

const packageFolder = dirname(fileURLToPath(import.meta.url));
const root = dirname(dirname(packageFolder));

/** Writes the package into a folder. The same sources give the same bytes. */
export async function buildClientPackage(outFolder) {
  await mkdir(outFolder, { recursive: true });
  await Promise.all([bundle(outFolder), writeTypes(outFolder), writeDescription(outFolder)]);
}

async function bundle(outFolder) {
  await build({
    absWorkingDir: packageFolder,
    entryPoints: ['src/index.ts', 'src/node.ts'],
    outdir: outFolder,
    bundle: true,
    splitting: true,
    chunkNames: 'shared',
    format: 'esm',
    target: 'es2022',
    platform: 'neutral',
    external: ['node:*'],
    logLevel: 'warning',
  });
}

/** The zip writer is outside of the package, so its types come out too. They are not part of the interface. */
async function writeTypes(outFolder) {
  const temporary = await mkdtemp(join(tmpdir(), 'bursar-client-'));
  try {
    const compiler = join(root, 'node_modules/typescript-7/bin/tsc');
    const options = ['--declaration', '--emitDeclarationOnly', '--noEmit', 'false', '--rootDir', root];
    const config = join(packageFolder, 'tsconfig.build.json');
    await promisify(execFile)(process.execPath, [compiler, '-p', config, ...options, '--outDir', temporary]);
    await cp(join(temporary, 'clients/typescript/src'), outFolder, { recursive: true });
    for (const name of await readdir(outFolder, { recursive: true })) {
      if (!name.endsWith('.d.ts')) continue;
      const types = await readFile(join(outFolder, name), 'utf8');
      await writeFile(join(outFolder, name), types.replace(/(from '\.[^']*)\.ts'/g, "$1.js'"));
    }
  } finally {
    await rm(temporary, { recursive: true });
  }
}

async function writeDescription(outFolder) {
  const description = JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8'));
  const entry = (name) => ({ types: `./${name}.d.ts`, default: `./${name}.js` });
  description.exports = { '.': { node: entry('node'), default: entry('index') } };
  delete description.private;
  await writeFile(join(outFolder, 'package.json'), `${JSON.stringify(description, null, 2)}\n`);
  await copyFile(join(packageFolder, 'README.md'), join(outFolder, 'README.md'));
  await copyFile(join(root, 'LICENSE'), join(outFolder, 'LICENSE'));
}
