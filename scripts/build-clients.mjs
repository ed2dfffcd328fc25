// Builds the packages that the server offers under /clients/. The same sources give the same bytes.
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildWheel } from './build-wheel.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

export async function buildClients(folder) {
  await mkdir(folder, { recursive: true });
  await Promise.all([buildCommandLine(join(folder, 'bursar.mjs')), buildWheel(folder)]);
}

/** The users' commands as one file, which needs nothing but Node. */
async function buildCommandLine(outfile) {
  const { build } = await import('esbuild');
  const start = `import { runCommandLine } from './src/cli/user-program.ts'; await runCommandLine(process.argv);`;
  await build({
    absWorkingDir: root,
    stdin: { contents: start, resolveDir: root },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    minify: true,
    keepNames: true,
    logLevel: 'warning',
    // CommonJS packages load Node's modules by `require`.
    banner: {
      js: "#!/usr/bin/env node\nimport { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
    },
  });
}
