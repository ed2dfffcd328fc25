// Builds the packages that the server offers under /clients/ into a folder. The same sources give the same bytes.
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { create } from 'tar';
import { buildClientPackage } from '../clients/typescript/build.mjs';
import { buildWheel } from './build-wheel.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

const [, , folder] = process.argv;
await mkdir(folder, { recursive: true });
await Promise.all([buildCommandLine(join(folder, 'bursar.mjs')), buildNpmPackage(), buildWheel(folder)]);

/** The same as `npm pack` makes, which writes the time into it. */
async function buildNpmPackage() {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const temporary = await mkdtemp(join(tmpdir(), 'bursar-package-'));
  try {
    await buildClientPackage(temporary);
    const entries = await readdir(temporary, { recursive: true, withFileTypes: true });
    const files = entries
      .filter((entry) => entry.isFile())
      .map((entry) => relative(temporary, join(entry.parentPath, entry.name)));
    const file = join(folder, `bursar-client-${version}.tgz`);
    await create(
      { cwd: temporary, file, gzip: true, portable: true, mtime: new Date(0), prefix: 'package' },
      files.sort(),
    );
  } finally {
    await rm(temporary, { recursive: true });
  }
}

/** The users' commands as one file, which needs nothing but Node. */
async function buildCommandLine(outfile) {
  const start = `import { runCommandLine } from './src/cli/user-program.ts'; await runCommandLine(process);`;
  await build({
    absWorkingDir: root,
    stdin: { contents: start, resolveDir: root },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20.15',
    minify: true,
    keepNames: true,
    logLevel: 'warning',
    // CommonJS packages load Node's modules by `require`.
    banner: {
      js: "#!/usr/bin/env node\nimport { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
  });
}
