import { chownSync, existsSync, globSync, rmSync, writeFileSync } from 'node:fs';

/** Set by `scripts/run-tests.ts`, which removes the files after the last test. */
export const keepPrivateFilesVariable = 'BURSAR_TEST_KEEP_PRIVATE_FILES';

/**
 * Creates a file in /etc that only one account can read, and returns its path. Needs root. All tests share the file and none
 * removes it while others run: a sandbox cannot be started while a file disappears that it should hide.
 */
export function createPrivateFile({ uid, gid } = { uid: 0, gid: 0 }): string {
  const path = `/etc/bursar-test-private-${uid}`;
  if (!existsSync(path)) {
    writeFileSync(path, 'secret\n', { mode: 0o600 });
    chownSync(path, uid, gid);
  }
  return path;
}

/** Does nothing in a run of many test files. */
export function removePrivateFile(path: string): void {
  if (!process.env[keepPrivateFilesVariable]) rmSync(path, { force: true });
}

export function removeAllPrivateFiles(): void {
  for (const path of globSync('/etc/bursar-test-private-*')) rmSync(path, { force: true });
}
