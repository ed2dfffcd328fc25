import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ApiResponse, type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath, readOutput, waitForStage } from '../../support/jobs.ts';
import { assertProblem, listFilesUnder } from '../../support/problems.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { mountSmallDisk, type SmallDisk } from '../../support/small-disk.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

interface System {
  hpc: string;
  status: string;
  detail: string;
}

// A real server whose database, spool, workspaces and engine records are on a disk that is full for a while.
describe('full disk', () => {
  let disk: SmallDisk;
  let server: ServerProcess;
  let me: Caller;
  let admin: Caller;
  let running: Job;
  let waiting: Job;
  let uploadKey: ReturnType<typeof startUpload>;

  before(async () => {
    disk = mountSmallDisk(48);
    const env = { BURSAR_DATABASE_URL: 'sqlite:bursar.db' };
    server = await spawnServer({ data: join(disk.folder, 'data'), env });
    me = createCaller(server.url, server.userToken);
    admin = createCaller(server.url, server.adminToken);
  });
  after(async () => {
    disk.free();
    await server.stop();
    disk.unmount();
  });

  const fileOf = (job: Job, name: string) => join(server.data, 'workspaces', job.job_id, 'files', name);
  const assertDiskFull = (response: ApiResponse) => {
    assertProblem(response, { status: 503, code: 'storage_unavailable', message: /disk .*is full .*Try again later/ });
    assert.match(response.headers.get('retry-after') ?? '', /^\d+$/);
  };
  const submissionHeaders = (key: string, command: string) => ({
    'content-disposition': 'attachment; filename=job.zip',
    payload: JSON.stringify({ command, runtime: 0.1 }),
    'idempotency-key': key,
  });
  const submitWithKey = (key: string, command = 'true') =>
    me.send('POST', '/jobs/hpc_one/', submissionHeaders(key, command)) as Promise<ApiResponse<Job>>;
  const countInLog = (message: string) => server.log().split(message).length - 1;
  const readSystems = async () => (await me.get<System[]>('/hpc/')).body;

  /** Begins a submission and sends the end of its body later. */
  function startUpload(key: string, zip: Uint8Array) {
    const half = Math.floor(zip.length / 2);
    const { promise: isContinued, resolve: finish } = Promise.withResolvers<void>();
    const headers = { ...submissionHeaders(key, 'true'), authorization: `Bearer ${server.userToken}` };
    const body = async function* () {
      yield zip.subarray(0, half);
      await isContinued;
      yield zip.subarray(half);
    };
    const request = { method: 'POST', headers, body: body(), duplex: 'half' } as unknown as RequestInit;
    return { finish, response: fetch(`${server.url}/jobs/hpc_one/`, request) };
  }

  test('leaves a job queued whose files do not fit, and retries it', async () => {
    // On a full disk files can be removed, not created.
    const line = 'touch waiting unfinished; while [ -e waiting ]; do sleep 0.1; done; echo stored; rm unfinished';
    running = (await me.submit('/jobs/hpc_one/', { command: line, runtime: 0.1 })).body;
    await until('the job waits', () => (existsSync(fileOf(running, 'unfinished')) ? true : undefined));
    await waitForStage(me, running, 'RUNNING');
    disk.fill(6000);
    const zip = await createZip({ 'run.sh': '#!/bin/sh\nwc -c <data\n', data: randomBytes(4_000_000) });
    const submitted = await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh', runtime: 0.1 }, zip);
    assert.equal(submitted.status, 201, submitted.text);
    waiting = submitted.body;
    await until('the dispatcher has failed twice', () => countInLog('job submission failed') >= 2 || undefined);
    assert.equal((await me.get<Job>(jobPath(waiting))).body.stage, 'QUEUED');
  });

  test('answers every request: reads with 200, writes with 503 and Retry-After', async () => {
    const zip = await createZip({ data: randomBytes(200_000) });
    uploadKey = startUpload('upload', zip);
    // The key is claimed before the body is read.
    const isArriving = () => listFilesUnder(server, 'spool/incoming').length > 0 || undefined;
    await until('the first half of the upload has arrived', isArriving);
    // The dispatcher may be unpacking the waiting job, and frees its space. When it cannot even claim the job, it is not.
    let failuresBefore = 0;
    await until('the job cannot be claimed since the disk was last filled', () => {
      const failures = countInLog('claiming jobs failed');
      if (disk.fill()) failuresBefore = failures;
      return failures > failuresBefore || undefined;
    });
    const requests = Array.from({ length: 20 }, (_, index) => submitWithKey(`refused-${index}`));
    for (const response of await Promise.all(requests)) assertDiskFull(response);
    assertDiskFull(await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.1 }, zip));
    assertDiskFull(await me.send('POST', `${jobPath(running)}cancel/`));
    const reason = { 'content-type': 'application/json' };
    assertDiskFull(await admin.send('POST', '/admin/systems/hpc_one/pause/', reason, '{"reason":"a test"}'));
    for (const path of ['/jobs/', jobPath(running), '/quotas/', '/hpc/', '/livez', '/metrics']) {
      assert.equal((await me.get(path)).status, 200, path);
    }
  });

  test('is reported by the readiness probe, the metrics and the status of each system', async () => {
    const full = { status: 503, code: 'unavailable', message: /Not ready.*disk .*is full/ };
    assertProblem(await me.get('/readyz'), full);
    for (const { status, detail } of await readSystems()) {
      assert.equal(status, 'down');
      assert.match(detail, /disk .*is full/);
    }
    assert.match((await me.get('/metrics')).text, /^bursar_storage_writable 0$/m);
  });

  test('releases the key of a submission that it has refused', async () => {
    uploadKey.finish();
    assert.equal((await uploadKey.response).status, 503);
    assertDiskFull(await submitWithKey('upload'));
  });

  test('keeps a job whose end cannot be recorded', async () => {
    rmSync(fileOf(running, 'waiting'));
    await until('the job has ended', () => (existsSync(fileOf(running, 'unfinished')) ? undefined : true));
    // Long enough for polls of the engine and attempts to store the output and the end.
    await sleep(3000);
    assert.equal((await me.get<Job>(jobPath(running))).body.stage, 'RUNNING');
  });

  test('ends when space is free: keys can be used, jobs end with their output, and the ledger balances', async () => {
    disk.free();
    const retried = await submitWithKey('upload');
    assert.equal(retried.status, 201, retried.text);
    const refused = await submitWithKey('refused-0');
    assert.equal(refused.status, 201, refused.text);
    for (const job of [running, waiting, retried.body, refused.body]) {
      assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL', server.log());
    }
    assert.equal(readOutput(server, running), 'stored\n');
    assert.equal(readOutput(server, waiting), '4000000\n');
    assert.equal((await me.get<Job[]>('/jobs/')).body.length, 4);
    await until('the server is ready', async () => ((await me.get('/readyz')).status === 200 ? true : undefined));
    const areUp = async () => (await readSystems()).every(({ status }) => status === 'up');
    await until('the systems are up', async () => (await areUp()) || undefined);
    const { body } = await admin.get<{ balanced: boolean }>('/admin/ledger/verification/');
    assert.equal(body.balanced, true);
  });
});
