import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../../support/api.ts';
import { jobPath } from '../../../support/jobs.ts';
import { downloadLargeFile, submitLargeFile } from '../../../support/large-file.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';
import { createZip } from '../../../support/zip.ts';

/** Many times the memory that the server may take for it. */
const megabytes = 1000;
const fileBytes = megabytes * 1_000_000;
const maxGrowthKb = 64 * 1024;

describe('a large file', () => {
  let server: ServerProcess;
  let me: Caller;
  let job: Job;
  /** The SHA-256 of the uploaded content. */
  let sentHash: string;
  before(async () => {
    server = await spawnServer();
    me = createCaller(server.url, server.userToken);
    // Warm up every code path before memory is measured.
    const { body } = await me.submit(
      '/jobs/hpc_one/',
      { command: 'true' },
      await createZip({ a: randomBytes(9_000_000) }),
    );
    await me.waitUntilFinished(body);
    for (const path of ['a', '?archive=zip']) await downloadLargeFile(server, body, path);
  });
  after(() => server.dispose());

  const residentKb = () =>
    Number(execFileSync('ps', ['-o', 'rss=', '-p', String(server.process.pid)], { encoding: 'utf8' }));

  /** Measures the largest growth of the server's memory during an action. */
  async function measureGrowthKb(act: () => Promise<void>): Promise<number> {
    const before = residentKb();
    let max = before;
    const timer = setInterval(() => {
      max = Math.max(max, residentKb());
    }, 100);
    await act().finally(() => clearInterval(timer));
    return Math.max(max, residentKb()) - before;
  }

  test('uploading it in an uncompressed zip takes at most 64 MB of memory', async (t) => {
    const grown = await measureGrowthKb(async () => {
      const sent = await submitLargeFile(server, megabytes);
      sentHash = sent.sha256;
      job = await me.waitUntilFinished(sent.job);
      assert.equal(job.stage, 'SUCCESSFUL');
    });
    t.diagnostic(`${grown} KB more`);
    assert.ok(grown <= maxGrowthKb, `${grown} KB more`);
    const { text } = await me.get(`${jobPath(job)}log/`);
    assert.equal(Number(text), fileBytes);
  });

  test('downloading the file takes at most 64 MB of memory, and its content is correct', async (t) => {
    const grown = await measureGrowthKb(async () => {
      assert.deepEqual(await downloadLargeFile(server, job, 'big.bin'), { bytes: fileBytes, sha256: sentHash });
    });
    t.diagnostic(`${grown} KB more`);
    assert.ok(grown <= maxGrowthKb, `${grown} KB more`);
  });

  test('downloading it as a zip takes at most 64 MB of memory', async (t) => {
    const grown = await measureGrowthKb(async () => {
      const { bytes } = await downloadLargeFile(server, job, '?archive=zip');
      assert.ok(bytes > fileBytes && bytes < fileBytes + 1000, `${bytes} bytes`);
    });
    t.diagnostic(`${grown} KB more`);
    assert.ok(grown <= maxGrowthKb, `${grown} KB more`);
  });
});
