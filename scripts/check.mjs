// `npm test`: all checks, then the tests that need only Node.
// Arguments are test files: after the checks only those run. The checks run side by side, one on each core; the tests run if all succeed.
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

// By its path: version 6, which dependency-cruiser needs, has a `tsc` too. One thread, because its threads check shared
// types once each, and other checks use the other cores. It checks again only what has changed since the last run.
const tsc = ['node', 'node_modules/typescript-7/bin/tsc', '--build', '--singleThreaded'];
const typeProjects = [
  // src, and everything that runs beside it.
  '.',
  // With the types of a browser, and without those of Node.
  'clients/typescript',
  // With the built-ins of the oldest Node that users may have. Tests run some of this code on it, this checks all of it.
  'test/oldest-node',
  'web',
  // They run code in the page, so that they need the types of both.
  'test/web',
];
const commands = [
  ['types', ...tsc, ...typeProjects],
  ['lint', 'biome', 'ci', '--error-on-warnings', '.'],
  ['layering', 'depcruise', '--config', '.dependency-cruiser.cjs', 'src', 'web/src'],
  ['unused code', 'knip'],
  ['documents', 'node', 'scripts/write-docs.ts', '--check'],
];

/** The compiler is a Go program. With less garbage collection it takes a seventh less CPU time, and 150 MB more. */
const env = { ...process.env, GOGC: '400' };

const queue = [...commands];
const succeeded = [];
// One for each core: side by side all of them take a sixth more CPU time.
await Promise.all(Array.from({ length: availableParallelism() }, runQueue));
if (succeeded.includes(false)) process.exit(1);
const tests = spawn('node', ['scripts/run-tests.ts', ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' });
tests.once('close', (code) => {
  process.exitCode = code ?? 1;
});

async function runQueue() {
  for (let command = queue.shift(); command !== undefined; command = queue.shift())
    succeeded.push(await runCheck(command));
}

/** Resolves to whether the command succeeded. Prints its output only if it failed. */
function runCheck([name, command, ...args]) {
  const startedAt = Date.now();
  const child = spawn(command, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  return new Promise((resolve) => {
    const report = (succeeded, reason) => {
      const seconds = ((Date.now() - startedAt) / 1000).toFixed(1);
      console.log(`${succeeded ? '✔' : '✖'} ${name}: ${command} ${args.join(' ')} (${seconds} s)`);
      if (!succeeded) console.error(`${output}\n✖ ${name} failed${reason}`);
      resolve(succeeded);
    };
    child.once('error', (error) => report(false, `: ${error.message}`));
    child.once('close', (code) => report(code === 0, ''));
  });
}
