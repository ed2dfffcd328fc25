import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { maxInMemoryBytes } from '../../src/files/spool/upload-buffer.ts';
import { callerOf, type Job } from '../support/api.ts';
import { queryDatabase, withDatabase } from '../support/database.ts';
import { outputOf } from '../support/jobs.ts';
import { filesUnder } from '../support/refusals.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { shippedConfig } from '../support/shipped-config.ts';
import { zipOf } from '../support/zip.ts';

/** Jobs that wait because their system is down, over a restart; then the system is another one, which is up. */
describe('the zip of a job that waits for its engine', () => {
  const nothing = mkdtempSync(join(tmpdir(), 'bursar-no-slurm-'));
  const jobs: Record<'small' | 'large' | 'old', Job | null> = { small: null, large: null, old: null };
  const jobOf = (name: keyof typeof jobs) => {
    const job = jobs[name];
    assert.ok(job);
    return job;
  };
  let server: TestServer;
  let zips: Record<keyof typeof jobs, Uint8Array>;

  before(async () => {
    const script = { 'run.sh': '#!/bin/sh\ncat word\n' };
    zips = {
      small: await zipOf({ ...script, word: 'small\n' }),
      large: await zipOf({ ...script, word: 'large\n', more: randomBytes(maxInMemoryBytes) }),
      old: await zipOf({ ...script, word: 'old\n' }),
    };
    const { systems, ...config } = shippedConfig();
    const engine = { kind: 'slurm', environment: { PATH: nothing }, accounting: 'none' };
    const down = { ...systems, hpc_one: { ...systems.hpc_one, engine } };
    server = await startServer({ config: { ...config, systems: down } });
    const me = callerOf(server.url, server.userToken);
    for (const name of ['small', 'large', 'old'] as const) {
      const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh', title: name }, zips[name]);
      assert.equal(status, 201);
      jobs[name] = body;
    }
  });
  after(async () => {
    await server.dispose();
    rmSync(nothing, { recursive: true });
  });

  test('is in the books when it is small, and a file otherwise', async () => {
    const rows = await withDatabase(server.data, (db) =>
      db.selectFrom('inputs').innerJoin('jobs', 'jobs.id', 'inputs.job').select(['title', 'content']).execute(),
    );
    const kept = Object.fromEntries(rows.map(({ title, content }) => [title, content]));
    assert.deepEqual(kept, { small: zips.small, old: zips.old });
    assert.deepEqual(filesUnder(server, 'spool'), [`${jobOf('large').job_id}.zip`]);
  });

  test('is unpacked wherever it is, also where an earlier version has put it, and then gone', async () => {
    const { userToken, data } = server;
    await server.stop();
    const { id, job_id } = jobOf('old');
    writeFileSync(join(data, 'spool', `${job_id}.zip`), zips.old);
    await queryDatabase(data, 'delete from inputs where job = ?', [id]);
    server = await startServer({ data });
    const me = callerOf(server.url, userToken);
    for (const name of ['small', 'large', 'old'] as const) {
      const job = await me.finished(jobOf(name));
      assert.equal(job.stage, 'SUCCESSFUL', server.log());
      assert.equal(outputOf(server, job), `${name}\n`);
    }
    assert.deepEqual(await queryDatabase(data, 'select job from inputs', []), []);
    assert.deepEqual(filesUnder(server, 'spool'), []);
  });
});
