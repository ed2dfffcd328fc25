import assert from 'node:assert/strict';
import { link, mkdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, describe, type TestContext, test } from 'node:test';
import { createRemoteWorkspaces } from '../../../../src/files/workspaces/remote/remote-workspaces.ts';
import type { Workspaces } from '../../../../src/files/workspaces/workspaces.ts';
import { createSshShell } from '../../../../src/shell/ssh-shell.ts';
import { temporaryFolder } from '../../../files/temporary.ts';
import { readerContract } from '../../../files/workspaces/reader-contract.ts';
import { hostileReaderContract } from '../../../files/workspaces/reader-hostile-contract.ts';
import { jobId } from '../../../files/workspaces/reader-setup.ts';
import { isLongRun } from '../../../support/long-run.ts';
import { notAborted } from '../../../support/signals.ts';
import { startSshd } from '../../../support/sshd.ts';
import { until } from '../../../support/until.ts';

async function start() {
  const sshd = await startSshd();
  const shell = createSshShell(sshd.options);
  return {
    shell,
    createWorkspaces: (root: string) => createRemoteWorkspaces({ shell, root, readTimeoutMs: 300_000 }),
    raceRounds: isLongRun ? 40 : 6,
    close: async () => {
      await shell.close();
      await sshd.close();
    },
  };
}

/** Opens a download and does not read it. */
async function openUnreadDownload(workspaces: Workspaces, user: string): Promise<Readable> {
  const file = await workspaces.openFile({ jobId, user, signal: notAborted }, ['large']);
  const content = await file.read(0, file.size);
  content.on('error', () => undefined);
  return content;
}

describe('clients of a system over ssh that do not read their downloads', () => {
  let environment: Awaited<ReturnType<typeof start>>;
  before(async () => {
    environment = await start();
  });
  after(() => environment.close());

  async function openLargeFile(t: TestContext) {
    const { shell } = environment;
    const folder = await temporaryFolder(t);
    const root = join(folder, 'workspaces');
    await mkdir(join(root, jobId, 'files'), { recursive: true });
    await writeFile(join(root, jobId, 'files', 'small'), 'small');
    await writeFile(join(root, jobId, 'files', 'large'), '');
    await truncate(join(root, jobId, 'files', 'large'), 100_000_000);
    const minRate = { bytesPerSecond: 1, maxPauseMs: 300 };
    return createRemoteWorkspaces({ shell, root, readTimeoutMs: 300_000, minRate });
  }
  const readSmall = async (workspaces: Workspaces, user: string) => {
    const file = await workspaces.openFile({ jobId, user, signal: notAborted }, ['small']);
    return await text(await file.read(0, file.size));
  };

  test('do not block other users, and keep their own downloads while nobody else waits', async (t) => {
    const workspaces = await openLargeFile(t);
    const open: Readable[] = [];
    const downloads = ['1', '1', '1', '1'].map(async (user) => open.push(await openUnreadDownload(workspaces, user)));
    // Any two of them: on a busy machine the others can be faster than the first ones.
    await until('two downloads are open', () => open.length >= 2 || undefined);
    assert.equal(await readSmall(workspaces, '2'), 'small');
    assert.deepEqual(
      open.map((content) => content.errored),
      [null, null],
    );
    for (const content of open.slice()) content.destroy();
    await Promise.all(downloads);
    for (const content of open) content.destroy();
  });

  test('lose a download when more users wait than there are free slots', async (t) => {
    const workspaces = await openLargeFile(t);
    const unread = await Promise.all(['1', '1', '2', '2'].map((user) => openUnreadDownload(workspaces, user)));
    assert.equal(await readSmall(workspaces, '3'), 'small');
    assert.ok(unread.some((content) => content.errored !== null));
    for (const content of unread) content.destroy();
  });
});

test('archives of folders with many hard links do not block each other or other users', async (t) => {
  const { createWorkspaces, close } = await start();
  t.after(close);
  const folder = await temporaryFolder(t);
  const workspaces = createWorkspaces(join(folder, 'workspaces'));
  const { directory, stdout } = workspaces.pathsOf(jobId);
  await mkdir(directory, { recursive: true });
  await writeFile(stdout, 'output');
  // More than the buffers between find(1) and the reader hold.
  const names = Array.from({ length: 2000 }, (_, i) => join(directory, `${i}-${'x'.repeat(150)}`));
  for (const name of names) {
    await writeFile(name, '');
    await link(name, `${name}.link`);
  }
  const countEntries = async () =>
    (await Array.fromAsync(workspaces.archive({ jobId, user: '1', signal: notAborted }, []), () => undefined)).length;
  const archives = Promise.all(Array.from({ length: 5 }, countEntries));
  const log = workspaces.readLog({ jobId, user: '2', signal: notAborted }, 'stdout', { offset: 0, maxBytes: 10 });
  assert.equal((await log)?.bytes.toString(), 'output');
  assert.deepEqual(await archives, [4000, 4000, 4000, 4000, 4000]);
});

readerContract('over ssh', start);
hostileReaderContract('over ssh', start);
