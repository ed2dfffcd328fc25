import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { makeZip } from '../../files/zip/hostile-zips.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';

describe('server restart', () => {
  let folder: string;
  let data: string;
  let server: ServerProcess;
  let token: string;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-restart-'));
    data = join(folder, 'data');
    server = await spawnServer({ data });
    token = server.userToken;
  });
  afterEach(async () => {
    await server.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
  });

  /** Submits a job that waits for the file `go`, and waits until it runs. */
  const startWaitingJob = async () => {
    const command = 'echo ran >> runs; until [ -e go ]; do sleep 0.1; done; echo done';
    const job = (await createCaller(server.url, token).submit('/jobs/hpc_one/', { command })).body;
    const files = join(data, 'workspaces', job.job_id, 'files');
    const [go, runs] = [join(files, 'go'), join(files, 'runs')];
    await until('the job runs', () => existsSync(runs) || undefined);
    return { job, go, runs };
  };

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    test(`after ${signal} keeps a running job running, and finds it again`, async () => {
      const { job, go, runs } = await startWaitingJob();
      if (signal === 'SIGTERM') assert.equal(await server.stop(), 0);
      else await server.kill();

      server = await spawnServer({ data });
      const me = createCaller(server.url, token);
      await until(
        'the job is shown as running',
        async () => (await me.get<Job[]>('/jobs/')).body[0]?.stage === 'RUNNING' || undefined,
      );
      writeFileSync(go, '');
      const finished = await me.waitUntilFinished(job);
      assert.equal(finished.stage, 'SUCCESSFUL');
      assert.equal(readFileSync(runs, 'utf8'), 'ran\n');
      assert.equal(readFileSync(join(data, 'workspaces', job.job_id, 'stdout'), 'utf8'), 'done\n');
    });
  }

  test('after SIGTERM an upload in progress finishes and gets its response', async () => {
    // So large that its first half is written to the spool, where the test can see it.
    const zip = await makeZip({ 'run.sh': '#!/bin/sh\necho hello\n', 'data.bin': randomBytes(200_000) });
    const upload = request(`${server.url}/jobs/hpc_one/`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-disposition': 'attachment; filename=job.zip',
        payload: '{"command": "sbatch run.sh"}',
        'content-length': zip.length,
      },
    });
    const responseStatus = new Promise<number | undefined>((resolve, reject) => {
      upload.on('response', (response) => resolve(response.resume().statusCode));
      upload.on('error', reject);
    });
    upload.write(zip.subarray(0, 100_000));
    await until('the upload has started', () => countIncoming(data) > 0 || undefined);
    const stopped = server.stop();
    await until('the server is stopping', () => server.log().includes('stopping') || undefined);
    upload.end(zip.subarray(100_000));
    assert.equal(await responseStatus, 201);
    assert.equal(await stopped, 0);

    server = await spawnServer({ data });
    const me = createCaller(server.url, token);
    const [job] = (await me.get<Job[]>('/jobs/')).body;
    assert.ok(job);
    assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
  });

  test('after SIGKILL during an upload there is neither a job nor a file', async () => {
    const upload = request(`${server.url}/jobs/hpc_one/`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-disposition': 'attachment; filename=job.zip',
        payload: '{"command": "sbatch run.sh"}',
        'content-length': 1_000_000,
      },
    });
    upload.on('error', () => undefined);
    // More than is buffered in memory.
    upload.write(Buffer.alloc(100_000));
    await until('the upload has started', () => countIncoming(data) > 0 || undefined);
    await server.kill();

    server = await spawnServer({ data });
    assert.equal(countIncoming(data), 0);
    assert.deepEqual((await createCaller(server.url, token).get('/jobs/')).body, []);
  });
});

function countIncoming(data: string): number {
  return readdirSync(join(data, 'spool', 'incoming')).length;
}
