import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { maxInMemoryBytes } from '../../../src/files/spool/upload-buffer.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { readOutput, releaseJob, waitForGoScript } from '../../support/jobs.ts';
import { getLedgerVerification, getSettlement, submitJob } from '../../support/ledger.ts';
import { unpackOldVersion } from '../../support/old-version.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';
import { countRuns } from './count-runs.ts';

// Upgrades from version 0.1.0, whose real program runs here, while jobs run and wait.

let old: Awaited<ReturnType<typeof unpackOldVersion>>;
before(async () => {
  old = await unpackOldVersion();
});
after(() => old.remove());

/** One job at a time, so that the others wait. */
function configWithOneCore() {
  const { systems, ...config } = shippedConfig();
  const hpc_one = { ...systems.hpc_one, engine: { kind: 'local', cores: 1 }, submittedJobsPerUser: 2 };
  return { ...config, systems: { ...systems, hpc_one } };
}

const runAndWait = `echo ran >> runs; ${waitForGoScript}; echo done`;
const run = 'echo ran >> runs; cat name';

test('jobs of 0.1.0 go on after SIGKILL and the start of this version, and are charged once', async () => {
  const config = configWithOneCore();
  // Named, so that it is not a copy of the template, whose schema 0.1.0 does not know.
  const env = { BURSAR_DATABASE_URL: 'sqlite:bursar.db' };
  let server = await spawnServer({ config, env, program: old.program });
  const { data, userToken, adminToken } = server;
  try {
    let me = createCaller(server.url, userToken);
    const running = await submitJob(me, { command: runAndWait, runtime: 0.1 });
    const queued = await submitJob(me, { command: run, runtime: 0.1 }, await createZip({ name: 'queued\n' }));
    const content = randomBytes(maxInMemoryBytes);
    const large = await submitJob(me, { command: run, runtime: 0.1 }, await createZip({ name: 'large\n', content }));
    await until('the job runs', () => countRuns(data)[running.job_id] === 1 || undefined);
    await server.kill();

    server = await spawnServer({ data, config });
    me = createCaller(server.url, userToken);
    releaseJob(server, running);
    for (const [job, output] of [
      [running, 'done\n'],
      [queued, 'queued\n'],
      [large, 'large\n'],
    ] as const) {
      assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
      assert.equal(readOutput(server, job), output);
      assert.equal(countRuns(data)[job.job_id], 1);
    }
    const { held, settled } = await getSettlement(me, running);
    assert.ok(settled.used > 0 && settled.used <= held, `${settled.used} of ${held}`);
    assert.deepEqual((await getLedgerVerification(createCaller(server.url, adminToken))).problems, []);
  } finally {
    await server.dispose();
  }
});

describe('on PostgreSQL', () => {
  let postgres: TestPostgres;
  let url: string;
  before(async () => {
    postgres = await startPostgres();
    url = await postgres.database('bursar');
  });
  after(() => postgres.close());

  test('0.1.0 and this version run side by side, and no job is lost', async () => {
    const env = { BURSAR_DATABASE_URL: url };
    const config = shippedConfig();
    const older = await spawnServer({ config, env, program: old.program });
    const { data, userToken, adminToken } = older;
    let newer: ServerProcess | undefined;
    try {
      const onOlder = createCaller(older.url, userToken);
      const jobs: Job[] = [await submitJob(onOlder, { command: runAndWait, runtime: 0.1 })];
      await until('the job runs', () => countRuns(data)[jobs[0]?.job_id ?? ''] === 1 || undefined);
      newer = await spawnServer({ data, config, env });
      const onNewer = createCaller(newer.url, userToken);
      for (const caller of [onOlder, onNewer, onOlder, onNewer])
        jobs.push(await submitJob(caller, { command: run, runtime: 0.1 }, await createZip({ name: 'x' })));
      // Then the new one takes over the lease.
      for (const job of jobs.slice(1, 3)) await onOlder.waitUntilFinished(job);
      assert.equal(await older.stop(), 0);
      releaseJob({ data }, jobs[0] as Job);
      jobs.push(await submitJob(onNewer, { command: run, runtime: 0.1 }, await createZip({ name: 'x' })));
      for (const job of jobs) {
        assert.equal((await onNewer.waitUntilFinished(job)).stage, 'SUCCESSFUL');
        assert.equal(countRuns(data)[job.job_id], 1);
      }
      assert.deepEqual((await getLedgerVerification(createCaller(newer.url, adminToken))).problems, []);
      await assert.rejects(spawnServer({ data, config, env, program: old.program }), /Use a newer version/);
    } finally {
      await newer?.stop();
      await older.dispose();
    }
  });
});
