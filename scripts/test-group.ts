// Runs several test files in one process, each as a suite of its own, so that its hooks apply to its own tests only. The
// files share the loaded modules: loading them takes a test of the HTTP interface more than a second of CPU time.
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { describe } from 'node:test';

const require = createRequire(import.meta.url);

for (const file of process.argv.slice(2)) {
  describe(file, () => {
    // Synchronously, unlike `import()`: a test belongs to the suite whose function is running. So these files have no
    // `await` outside of functions.
    require(resolve(file));
  });
}
