import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../../support/api.ts';
import { jobPath } from '../../../support/jobs.ts';
import { downloadLargeFile, submitLargeFile } from '../../../support/large-file.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';

// test/long/http/routes/large-files.test.ts measures the memory that a larger file takes.

const megabytes = 100;
const fileBytes = megabytes * 1_000_000;

describe('a large file', () => {
  let server: ServerProcess;
  let me: Caller;
  let job: Job;
  let sentHash: string;
  before(async () => {
    server = await spawnServer();
    me = createCaller(server.url, server.userToken);
  });
  after(() => server.dispose());

  test('is uploaded in an uncompressed zip, and complete for its job', async () => {
    const sent = await submitLargeFile(server, megabytes);
    sentHash = sent.sha256;
    job = await me.waitUntilFinished(sent.job);
    assert.equal(job.stage, 'SUCCESSFUL');
    const { text } = await me.get(`${jobPath(job)}log/`);
    assert.equal(Number(text), fileBytes);
  });

  test('is downloaded with its content', async () => {
    assert.deepEqual(await downloadLargeFile(server, job, 'big.bin'), { bytes: fileBytes, sha256: sentHash });
  });

  test('is downloaded as a zip', async () => {
    const { bytes } = await downloadLargeFile(server, job, '?archive=zip');
    assert.ok(bytes > fileBytes && bytes < fileBytes + 1000, `${bytes} bytes`);
  });
});
