import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { maxInMemoryBytes } from '../../src/files/spool/spool.ts';
import { createCaller, type Job } from '../support/api.ts';
import { queryDatabase, withDatabase } from '../support/database.ts';
import { jobPath, readOutput } from '../support/jobs.ts';
import { listFilesUnder } from '../support/problems.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { shippedConfig } from '../support/shipped-config.ts';
import { sendJson } from '../support/webhooks.ts';
import { createZip } from '../support/zip.ts';

/** Submits jobs while their system is down, then restarts the server with an engine that works. */
describe('a job that waits for its engine', () => {
  const emptyFolder = mkdtempSync(join(tmpdir(), 'bursar-no-slurm-'));
  const jobs: Record<'small' | 'large' | 'folder' | 'old', Job | null> = {
    small: null,
    large: null,
    folder: null,
    old: null,
  };
  const getJob = (name: keyof typeof jobs) => {
    const job = jobs[name];
    assert.ok(job);
    return job;
  };
  const cancelled: { job: Job; end: readonly [failed: boolean, reason: string] }[] = [];
  let server: TestServer;
  let zips: Record<keyof typeof jobs, Uint8Array>;

  before(async () => {
    const script = { 'run.sh': '#!/bin/sh\ncat name\n' };
    zips = {
      small: await createZip({ ...script, name: 'small\n' }),
      large: await createZip({ ...script, name: 'large\n', data: randomBytes(maxInMemoryBytes) }),
      folder: await createZip({ 'my project/run.sh': script['run.sh'], 'my project/name': 'folder\n' }),
      old: await createZip({ ...script, name: 'old\n' }),
    };
    const { systems, ...config } = shippedConfig();
    const engine = { kind: 'slurm', environment: { PATH: emptyFolder }, accounting: 'none' };
    const systemsDown = { ...systems, hpc_one: { ...systems.hpc_one, engine } };
    server = await startServer({ config: { ...config, systems: systemsDown } });
    const me = createCaller(server.url, server.userToken);
    for (const name of ['small', 'large', 'folder', 'old'] as const) {
      const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh', title: name }, zips[name]);
      assert.equal(status, 201);
      jobs[name] = body;
    }
    const admin = createCaller(server.url, server.adminToken);
    for (const [caller, prefix, ...end] of [
      [me, '', false, 'cancelled by its owner before it began'],
      [admin, '/admin', true, 'cancelled by an administrator before it began'],
    ] as const) {
      const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'true' });
      const reason = prefix === '' ? undefined : { reason: 'because of a test' };
      assert.equal((await sendJson(caller, 'POST', `${prefix}${jobPath(job)}cancel/`, reason)).status, 202);
      cancelled.push({ job, end });
    }
  });
  after(async () => {
    await server.dispose();
    rmSync(emptyFolder, { recursive: true });
  });

  test('has its zip in the database if it is small, and in the spool otherwise', async () => {
    const rows = await withDatabase(server.data, (db) =>
      db.selectFrom('inputs').innerJoin('jobs', 'jobs.id', 'inputs.job').select(['title', 'content']).execute(),
    );
    const stored = Object.fromEntries(rows.map(({ title, content }) => [title, content]));
    assert.deepEqual(stored, { small: zips.small, folder: zips.folder, old: zips.old });
    assert.deepEqual(listFilesUnder(server, 'spool'), [`${getJob('large').job_id}.zip`]);
  });

  test('gets its files from the database or the spool, even if an earlier version put a small zip into the spool, and does not start if it was cancelled', async () => {
    const { userToken, data } = server;
    await server.stop();
    const { id, job_id } = getJob('old');
    writeFileSync(join(data, 'spool', `${job_id}.zip`), zips.old);
    await queryDatabase(data, 'delete from inputs where job = ?', [id]);
    server = await startServer({ data });
    const me = createCaller(server.url, userToken);
    for (const name of ['small', 'large', 'folder', 'old'] as const) {
      const job = await me.waitUntilFinished(getJob(name));
      assert.equal(job.stage, 'SUCCESSFUL', server.log());
      // The folder in which a job starts is stored with the job.
      assert.equal(readOutput(server, job), `${name}\n`);
    }
    assert.deepEqual(await queryDatabase(data, 'select job from inputs', []), []);
    assert.deepEqual(listFilesUnder(server, 'spool'), []);
    for (const { job, end } of cancelled) {
      const { failed } = await me.waitUntilFinished(job);
      const query = 'select reason, started_at from jobs where id = ?';
      const [row] = await queryDatabase<{ reason: string; started_at: number | null }>(data, query, [job.id]);
      assert.deepEqual([failed, row?.reason, row?.started_at], [...end, null]);
    }
  });
});
