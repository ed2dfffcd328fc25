// Builds the program from its sources, unless that was done: Node reads a few files faster than a thousand. Where it
// cannot be built, Bursar runs from its sources.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { builtFolder, builtFrom } from '../bin/built.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** A server that runs may still load from what it was started with. */
const mostKept = 5;

/** What is started as a process or thread of its own. */
const entryPoints = ['src/cli/program.ts', 'src/engines/local/supervisor.ts', 'src/store/ledger/verify-thread.ts'];
/** What brings native code, or files that it looks for beside its own. */
const external = ['better-sqlite3', 'pg', '@fastify/swagger-ui'];

export async function build() {
  const folder = builtFrom();
  if (existsSync(folder)) return;
  try {
    const { build: bundle } = await import('esbuild');
    const fresh = `${folder}.${process.pid}`;
    await bundle({
      absWorkingDir: root,
      entryPoints,
      outdir: fresh,
      entryNames: '[name]',
      bundle: true,
      splitting: true,
      platform: 'node',
      format: 'esm',
      target: 'node22',
      external,
      logLevel: 'warning',
      // Packages in CommonJS ask for what belongs to Node by `require`.
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    });
    putInPlace(fresh, folder);
  } catch (error) {
    console.error(`Not built, so it starts more slowly: ${error.message}`);
  }
}

function putInPlace(fresh, folder) {
  mkdirSync(builtFolder, { recursive: true });
  try {
    renameSync(fresh, folder);
  } catch (error) {
    // Somebody else was faster.
    rmSync(fresh, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
  const age = (path) => statSync(path).mtimeMs;
  const others = readdirSync(builtFolder).map((name) => join(builtFolder, name));
  const oldest = others.filter((path) => path !== folder).sort((one, other) => age(other) - age(one));
  for (const path of oldest.slice(mostKept)) rmSync(path, { recursive: true, force: true });
}
