// Bundles the program, unless this was already done for the current sources: Node loads a few files faster than a
// thousand. If the build fails, Bursar runs from its sources.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildFolder, buildRoot } from '../bin/build-folder.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** Old builds are kept because a running server may still load files of its build. */
const maxOldBuilds = 5;

/** Modules that start as a process or a thread. */
const entryPoints = [
  'src/cli/program.ts',
  'src/engines/local/supervisor.ts',
  'src/shell/spawn-server.ts',
  'src/store/ledger/verify-thread.ts',
];
/** Not bundled, because of its native code, and part of a release. */
export const installedPackages = ['better-sqlite3'];
/** Not bundled either: Fastify and pg load them only for features that Bursar does not use. */
const unusedPackages = ['@fastify/fast-json-stringify-compiler', 'light-my-request', 'pg-native'];

export async function build() {
  const folder = buildFolder();
  if (existsSync(folder)) return;
  try {
    const { build: bundle } = await import('esbuild');
    const temporary = `${folder}.${process.pid}`;
    await bundle({
      absWorkingDir: root,
      entryPoints,
      outdir: temporary,
      entryNames: '[name]',
      // For `.js` Node would search and read a package.json for each file.
      outExtension: { '.js': '.mjs' },
      bundle: true,
      splitting: true,
      platform: 'node',
      format: 'esm',
      target: 'node22',
      // V8 keeps the source in memory. Names stay, for stack traces.
      minifyWhitespace: true,
      minifySyntax: true,
      external: [...installedPackages, ...unusedPackages],
      logLevel: 'warning',
      plugins: [compiledConfigSchema],
      // CommonJS packages load Node's modules by `require`.
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    });
    cpSync(join(root, 'node_modules/@fastify/swagger-ui/static'), join(temporary, 'swagger-ui'), { recursive: true });
    runScript('scripts/build-clients.mjs', [join(temporary, 'clients')]);
    runScript('web/build.mjs', [join(temporary, 'web')]);
    install(temporary, folder);
  } catch (error) {
    console.error(`The build failed, so Bursar starts more slowly: ${error.message}`);
  }
}

/** Compiles the schema of the configuration here instead of at every start. */
const compiledConfigSchema = {
  name: 'compiled-config-schema',
  setup({ onLoad }) {
    const contents = () => runScript('scripts/compile-config-schema.ts', [], { maxBuffer: 2 ** 24 });
    onLoad({ filter: /\/src\/config\/schema-validators\.ts$/ }, () => ({ contents: contents(), resolveDir: root }));
  },
};

/** Runs a script by the Node that Bursar uses: an old one on this machine cannot do it. */
function runScript(script, args = [], options = { stdio: 'inherit' }) {
  const pinnedNode = join(root, 'node_modules/.bin/node');
  const node = existsSync(pinnedNode) ? pinnedNode : process.execPath;
  return execFileSync(node, [join(root, script), ...args], options);
}

function install(temporary, folder) {
  mkdirSync(buildRoot, { recursive: true });
  try {
    renameSync(temporary, folder);
  } catch (error) {
    // Another process may have installed the same build first.
    rmSync(temporary, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
  const modifiedAt = (path) => statSync(path).mtimeMs;
  const builds = readdirSync(buildRoot).map((name) => join(buildRoot, name));
  const newestFirst = builds.filter((path) => path !== folder).sort((a, b) => modifiedAt(b) - modifiedAt(a));
  for (const path of newestFirst.slice(maxOldBuilds)) rmSync(path, { recursive: true, force: true });
}
