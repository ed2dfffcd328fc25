import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { TestContext } from 'node:test';
import { localTest } from '../../../engines/local/harness.ts';
import { localSandbox } from '../../../support/bubblewrap.ts';
import { createPrivateFile, removePrivateFile } from '../../../support/private-file.ts';

/** Runs a test with jobs that are not isolated, and with isolated ones. */
export function localTestWithAndWithoutIsolation(...[title, options, body]: Parameters<typeof localTest>): void {
  localTest(title, options, body);
  localTest(`${title} (isolated)`, { ...options, sandbox: localSandbox() }, body);
}

export const needsRoot = { skip: process.getuid?.() !== 0 && 'only root can start jobs as another account' };
/** An account that need not exist. */
export const account = { uid: 54_321, gid: 54_322, name: 'jobs' };

/** Creates a program that runs a line of shell and then the real bubblewrap. */
export async function createBubblewrap(t: TestContext, line: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'bursar-bwrap-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const program = join(folder, 'bwrap');
  await writeFile(program, `#!/bin/sh\n${line}\nexec ${localSandbox().program} "$@"\n`, { mode: 0o755 });
  return program;
}

/** At its first attempt, a private file has disappeared. In a copy of /etc, because other tests use the real one. */
export async function createBubblewrapWithoutFile(t: TestContext): Promise<string> {
  const file = createPrivateFile();
  t.after(() => removePrivateFile(file));
  return await createBubblewrap(
    t,
    `if [ ! -e "$0.etc" ]; then
      cp -a /etc "$0.etc"; rm "$0.etc/${basename(file)}"
      exec unshare --mount sh -c 'mount --bind "$0.etc" /etc && exec ${localSandbox().program} "$@"' "$0" "$@"
    fi`,
  );
}
