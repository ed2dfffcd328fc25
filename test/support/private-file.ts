import { chownSync, existsSync, globSync, rmSync, writeFileSync } from 'node:fs';

/** Set by `scripts/run-tests.ts`, which removes the files after the last test: a name for this run, as others can run beside it. */
export const privateFilesVariable = 'BURSAR_TEST_PRIVATE_FILES';

/**
 * Creates a file in /etc that only one account can read, and returns its path. Needs root. All tests share the file and none
 * removes it while others run: a sandbox cannot be started while a file disappears that it should hide.
 */
export function createPrivateFile({ uid, gid } = { uid: 0, gid: 0 }, suffix = ''): string {
  const path = `${prefixOf(process.env[privateFilesVariable] ?? String(process.pid))}${uid}${suffix}`;
  if (!existsSync(path)) {
    writeFileSync(path, 'secret\n', { mode: 0o600 });
    chownSync(path, uid, gid);
  }
  return path;
}

/** Does nothing in a run of many test files. */
export function removePrivateFile(path: string): void {
  if (!process.env[privateFilesVariable]) rmSync(path, { force: true });
}

/** Removes the files that the tests of a run have created. */
export function removePrivateFiles(run: string): void {
  for (const path of globSync(`${prefixOf(run)}*`)) rmSync(path, { force: true });
}

const prefixOf = (run: string) => `/etc/bursar-test-private-${run}-`;
