// Bundles the program, unless this was already done for the current sources: Node loads one file faster than a thousand.
// If the build fails, Bursar runs from its sources.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildFolder, buildRoot } from '../bin/build-folder.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** Old builds are kept because a running server may still load files of its build. */
const maxOldBuilds = 5;

/** Modules that start as a process or a thread. */
const entryPoints = [
  'src/cli/program.ts',
  'src/engines/local/supervisor/supervisor.ts',
  'src/shell/spawn-server.ts',
  'src/store/ledger/verify-thread.ts',
];
/** Not bundled, because of its native code, and part of a release. */
export const installedPackages = ['better-sqlite3'];
/** Not bundled either: Fastify and pg load them only for features that Bursar does not use. */
const unusedPackages = [
  '@fastify/ajv-compiler',
  '@fastify/fast-json-stringify-compiler',
  'light-my-request',
  'pg-native',
];

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
      outExtension: { '.js': '.cjs' },
      bundle: true,
      platform: 'node',
      // Of CommonJS, V8 can save the functions that it has compiled (bin/load-program.mjs).
      format: 'cjs',
      target: 'node22',
      // A script that is loaded by `vm` has no loader for `import()`, only `require`.
      supported: { 'dynamic-import': false },
      // V8 keeps the source in memory. Names stay, for stack traces.
      minifyWhitespace: true,
      minifySyntax: true,
      external: [...installedPackages, ...unusedPackages],
      logLevel: 'warning',
      plugins: [compiledConfigSchema],
      define: { 'import.meta.url': 'importMetaUrl' },
      banner: { js: "const importMetaUrl = require('node:url').pathToFileURL(__filename).href;" },
    });
    wrapProgram(join(temporary, 'program.cjs'));
    copyShellPrograms(temporary);
    cpSync(join(root, 'node_modules/@fastify/swagger-ui/static'), join(temporary, 'swagger-ui'), { recursive: true });
    runScript('scripts/build-clients.mjs', [join(temporary, 'clients')]);
    runScript('web/build.mjs', [join(temporary, 'web')]);
    install(temporary, folder);
  } catch (error) {
    console.error(`The build failed, so Bursar starts more slowly: ${error.message}`);
  }
}

/**
 * Prepares the program for bin/load-program.mjs: a function, because the names of a script are global, with its hash in front,
 * and in ASCII, so that a character takes one byte of memory. esbuild escapes other characters only in strings.
 */
function wrapProgram(file) {
  const toEscape = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const text = readFileSync(file, 'utf8').replace(/[\u0080-\uffff]/g, toEscape);
  const hash = createHash('sha256').update(text).digest('hex');
  writeFileSync(file, `//${hash}\n(function (exports, require, module, __filename) {${text}\n})`);
}

/** Programs for other hosts, which modules of engines read from their own folder: here, that of the program. */
function copyShellPrograms(folder) {
  for (const path of readdirSync(join(root, 'src/engines'), { recursive: true })) {
    if (!path.endsWith('.sh')) continue;
    // Throws if two engines have a program of the same name.
    cpSync(join(root, 'src/engines', path), join(folder, basename(path)), { force: false, errorOnExist: true });
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
