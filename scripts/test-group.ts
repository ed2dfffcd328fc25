// Runs several test files in one process, each as a suite of its own, so that its hooks apply to its own tests only. The
// files share the loaded modules: loading them takes a test of the HTTP interface more than a second of CPU time.
import asyncHooks from 'node:async_hooks';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

// node:test follows every promise, to name the test whose promise was rejected and not handled. That is a tenth of the CPU
// time of a group. Without it, such a rejection fails the group instead of the test.
const { createHook } = asyncHooks;
asyncHooks.createHook = (callbacks) => createHook({ ...callbacks, trackPromises: false });
process.on('unhandledRejection', (error) => {
  console.error('a rejection that nobody handles:', error);
  // At the end: tests of commands set the exit code too.
  process.on('exit', () => {
    process.exitCode = 1;
  });
});
const { describe } = await import('node:test');

const require = createRequire(import.meta.url);

for (const file of process.argv.slice(2)) {
  describe(file, () => {
    // Synchronously, unlike `import()`: a test belongs to the suite whose function is running. So these files have no
    // `await` outside functions.
    require(resolve(file));
  });
}
