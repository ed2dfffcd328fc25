import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { maxInMemoryBytes } from '../../../src/files/spool/spool.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { bursarProcess, runBursar } from '../../support/command-line.ts';
import { jobPath, readOutput, releaseJob, waitForGoScript } from '../../support/jobs.ts';
import { getLedgerVerification, getSettlement, submitJob } from '../../support/ledger.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';
import { countRuns } from './count-runs.ts';

// `bursar backup` and `restore`, with jobs that wait and jobs that run.

const folder = mkdtempSync(join(tmpdir(), 'bursar-drill-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** One core, so that a job which runs keeps the others waiting in the engine, and few of them in the engine at a time. */
function configWithOneCore() {
  const { systems, ...config } = shippedConfig();
  const { hpc_one } = systems;
  return {
    ...config,
    systems: { ...systems, hpc_one: { ...hpc_one, engine: { kind: 'local', cores: 1 }, submittedJobsPerUser: 1 } },
  };
}

const run = 'echo ran >> runs; cat name';

describe('a backup that is restored after everything was lost', () => {
  const backup = join(folder, 'backup');
  let server: ServerProcess;
  let running: Job;
  const waiting: Record<string, Job> = {};

  before(async () => {
    server = await spawnServer({ config: configWithOneCore() });
    const me = createCaller(server.url, server.userToken);
    running = await submitJob(me, { command: `touch begun; ${waitForGoScript}`, runtime: 0.1 });
    for (const name of ['small', 'large', 'larger']) {
      const content = name === 'small' ? '' : randomBytes(maxInMemoryBytes * (name === 'large' ? 1 : 9));
      const zip = await createZip({ name: `${name}\n`, content });
      waiting[name] = await submitJob(me, { command: run, runtime: 0.1 }, zip);
    }
    // Its supervisor would otherwise create the workspace after everything was lost.
    const begun = join(server.data, 'workspaces', running.job_id, 'files', 'begun');
    await until('the job runs', () => existsSync(begun) || undefined);
  });
  after(() => server.dispose());

  test('is taken while the server writes', async () => {
    const me = createCaller(server.url, server.userToken);
    let isOver = false;
    const writing = (async () => {
      while (!isOver) {
        const { body: job } = await me.submit(
          '/jobs/hpc_two/',
          { tool: 'BASH', runtime: 0.01 },
          await createZip({ 'main.sh': '' }),
        );
        await me.send('POST', `${jobPath(job)}cancel/`);
        await sleep(50);
      }
    })();
    const { stdout } = await runBursar(['backup', backup], server.environment);
    isOver = true;
    await writing;
    assert.match(stdout, /zips of waiting jobs: 2\): \d+ rows\.\nThe ledger balances: .*\n/);
    assert.match(
      stdout,
      /The audit trail is intact: \d+ records\.\nRestored to a temporary database: every row is the same\.\n$/,
    );
    const zips = ['large', 'larger'].map((name) => `${waiting[name]?.job_id}.zip`);
    assert.deepEqual(readdirSync(backup).sort(), ['SHA256SUMS', 'bursar.db', 'spool']);
    assert.deepEqual(readdirSync(join(backup, 'spool')).sort(), zips.sort());
    assert.deepEqual(
      readdirSync(server.data).filter((name) => name.startsWith('backup-')),
      [],
    );
  });

  test('is refused if a file was changed', async () => {
    const zip = join(backup, 'spool', `${waiting.large?.job_id}.zip`);
    const content = readFileSync(zip);
    writeFileSync(zip, content.subarray(1));
    const { code, stderr } = await bursarProcess(['restore', backup], { BURSAR_DATA: join(folder, 'refused') });
    writeFileSync(zip, content);
    assert.equal(code, 2, stderr);
    assert.match(stderr, /is damaged: spool\/.*\.zip is missing or was changed/);
    assert.ok(!existsSync(join(folder, 'refused', 'bursar.db')));
  });

  test('lets every waiting job run once, with its files', async () => {
    const { userToken, adminToken, data } = server;
    await server.kill();
    rmSync(data, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
    const { stdout } = await runBursar(['restore', backup], server.environment);
    assert.match(stdout, /^Restored from .*\nThe ledger balances: [\s\S]*Zips of waiting jobs: 2\.\n$/);
    // More cores: the job that was running is lost, but for a minute it counts as running (test/workers/watcher.test.ts).
    const { systems, ...config } = configWithOneCore();
    const hpc_one = { ...systems.hpc_one, engine: { kind: 'local', cores: 4 }, submittedJobsPerUser: 10 };
    server = await spawnServer({ data, config: { ...config, systems: { ...systems, hpc_one } } });
    const me = createCaller(server.url, userToken);
    for (const [name, job] of Object.entries(waiting)) {
      const end = await me.waitUntilFinished(job);
      assert.equal(end.stage, 'SUCCESSFUL', name);
      assert.equal(readOutput(server, job), `${name}\n`);
      assert.equal(countRuns(data)[job.job_id], 1);
    }
    assert.equal(countRuns(data)[running.job_id], undefined);
    assert.deepEqual((await getLedgerVerification(createCaller(server.url, adminToken))).problems, []);
    Object.assign(server, { userToken, adminToken });
  });
});

describe('a database that is restored beside the files of its jobs', () => {
  test('knows the ends of jobs that ended after the backup, and runs none again', async () => {
    const backup = join(folder, 'older');
    let server = await spawnServer({ config: configWithOneCore() });
    try {
      const { data, userToken, adminToken } = server;
      let me = createCaller(server.url, userToken);
      const script = `echo ran >> runs; ${waitForGoScript}; sleep 1`;
      const running = await submitJob(me, { command: script, runtime: 0.1 });
      const waiting = await submitJob(me, { command: run, runtime: 0.1 }, await createZip({ name: 'waiting\n' }));
      await until('the job runs', () => countRuns(data)[running.job_id] === 1 || undefined);
      await until('its state is stored', async () =>
        (await me.get<Job>(jobPath(running))).body.stage === 'RUNNING' ? true : undefined,
      );
      await runBursar(['backup', backup], server.environment);
      releaseJob(server, running);
      for (const job of [running, waiting]) await me.waitUntilFinished(job);
      const settlement = (await getSettlement(me, running)).settled;
      assert.ok(settlement.used > 0);
      // The engine forgets them after their ends were stored.
      await until('the records are gone', () =>
        existsSync(join(data, 'engines', 'hpc_one', waiting.job_id)) ? undefined : true,
      );
      await server.kill();
      for (const suffix of ['', '-wal', '-shm']) rmSync(join(data, `bursar.db${suffix}`), { force: true });
      await runBursar(['restore', backup], server.environment);
      server = await spawnServer({ data, config: configWithOneCore() });
      me = createCaller(server.url, userToken);
      for (const job of [running, waiting]) {
        assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
        assert.equal(countRuns(data)[job.job_id], 1);
      }
      assert.equal((await getSettlement(me, running)).settled.used, settlement.used);
      assert.deepEqual((await getLedgerVerification(createCaller(server.url, adminToken))).problems, []);
    } finally {
      await server.dispose();
    }
  });
});
