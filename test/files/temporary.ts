import { mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { removeTree } from '../../src/files/workspaces/remove-tree.ts';

/** Creates a folder for one test, and removes it afterwards. */
export async function temporaryFolder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'files-'));
  t.after(() => removeTree(path));
  return path;
}

/** Counts the open file descriptors of this process. */
export async function countOpenFiles(): Promise<number> {
  return (await readdir('/dev/fd')).length;
}

/** Runs as an unprivileged user, because file modes do not restrict root. */
export async function runUnprivileged<T>(run: () => Promise<T>): Promise<T> {
  if (process.geteuid?.() !== 0) return await run();
  const nobody = 65534;
  process.setegid?.(nobody);
  process.seteuid?.(nobody);
  try {
    return await run();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}
