import assert from 'node:assert/strict';
import { link, mkdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { createWorkspaces } from '../../../src/files/workspaces/workspaces.ts';
import { isLongRun } from '../../support/long-run.ts';
import { readerContract } from './reader-contract.ts';
import { hostileReaderContract } from './reader-hostile-contract.ts';
import { jobId, openWorkspace } from './reader-setup.ts';

const start = async () => ({
  createWorkspaces: (root: string) => createWorkspaces(root),
  raceRounds: isLongRun ? 300 : 100,
  close: async () => undefined,
});
readerContract('on this host', start);
hostileReaderContract('on this host', start);

/** A signal that counts how often it was asked, and is aborted after some of these. */
function countingSignal(abortedAfter: number) {
  let count = 0;
  const signal = new AbortController().signal;
  Object.defineProperty(signal, 'aborted', { get: () => ++count > abortedAfter });
  return { signal, count: () => count };
}

test('a file with several links is looked for until its reader has gone, or all links are found', async (t) => {
  const { at, outside, workspaces, writeFiles } = await openWorkspace(t, (root) => createWorkspaces(root));
  await writeFiles({ one: 'content' });
  await link(at('one'), at('two'));
  await mkdir(at('sub'));
  for (let index = 0; index < 1000; index += 1) await writeFile(at('sub', String(index)), '');

  const found = countingSignal(Number.POSITIVE_INFINITY);
  await (await workspaces.openFile({ jobId, user: '1', signal: found.signal }, ['one'])).close();
  assert.ok(found.count() > 1 && found.count() < 50, `${found.count()} entries were read`);

  await link(at('one'), outside('three'));
  const gone = countingSignal(50);
  await assert.rejects(workspaces.openFile({ jobId, user: '1', signal: gone.signal }, ['one']), {
    code: 'file_unknown',
  });
  assert.equal(gone.count(), 51);
});
