import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import { maxInMemoryBytes } from '../../../src/files/spool/spool.ts';
import { createCaller } from '../../support/api.ts';
import { listFilesUnder } from '../../support/problems.ts';
import { startServer } from '../../support/server.ts';
import { createZip } from '../../support/zip.ts';

test('a submission that the disk refuses when its zip has got the name of the job leaves nothing', async (t) => {
  const server = await startServer();
  t.after(() => server.dispose());
  const me = createCaller(server.url, server.userToken);
  // A smaller zip is stored in the database, with the job.
  const zip = await createZip({ data: randomBytes(3 * maxInMemoryBytes) });
  const before = await me.quota('hpc_one', 'proj_hpc_one_01');

  const failingSync = t.mock.method(await prototypeOfFileHandles(), 'sync', async function (this: FileHandle) {
    if ((await this.stat()).isDirectory())
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO', errno: -5, syscall: 'fsync' });
  });
  const { status } = await me.submit('/jobs/hpc_one/', { command: 'true' }, zip);
  failingSync.mock.restore();

  assert.equal(status, 503);
  assert.deepEqual(listFilesUnder(server, 'spool'), []);
  assert.deepEqual((await me.get('/jobs/')).body, []);
  assert.deepEqual(await me.quota('hpc_one', 'proj_hpc_one_01'), before);
  assert.equal((await me.submit('/jobs/hpc_one/', { command: 'true' }, zip)).status, 201);
});

async function prototypeOfFileHandles(): Promise<FileHandle> {
  const handle = await open(tmpdir());
  await handle.close();
  return Object.getPrototypeOf(handle);
}
