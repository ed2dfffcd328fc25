import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../support/api.ts';
import { queryDatabase } from '../support/database.ts';
import { jobPath, requestCancel } from '../support/jobs.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { shippedConfig } from '../support/shipped-config.ts';
import { until } from '../support/until.ts';
import { createZip } from '../support/zip.ts';

interface Timeline {
  entries: { type: string; stage: string | null; reason: string | null }[];
}
interface System {
  status: string;
  detail: string;
}

const emptyFolder = mkdtempSync(join(tmpdir(), 'bursar-no-slurm-'));
after(() => rmSync(emptyFolder, { recursive: true }));

/** hpc_one has the local engine, hpc_two a Slurm whose commands are not installed: a transient error. */
function configWithBrokenSlurm() {
  const { systems, ...config } = shippedConfig();
  const engine = { kind: 'slurm', environment: { PATH: emptyFolder }, accounting: 'none' };
  return { ...config, systems: { ...systems, hpc_two: { ...systems.hpc_two, engine } } };
}

describe('a job that cannot be submitted', () => {
  let server: TestServer;
  let me: Caller;
  before(async () => {
    // The second try is after one second, the third one after three.
    server = await startServer({ config: configWithBrokenSlurm(), tuning: { delayAlarmMs: 2500 } });
    me = createCaller(server.url, server.userToken);
  });
  after(() => server.dispose());

  const waitForDelay = (job: Job) =>
    until('the timeline says why the job waits', async () => {
      const { entries } = (await me.get<Timeline>(`${jobPath(job)}timeline/`)).body;
      return entries.find(({ type }) => type === 'job.delayed');
    });
  const countDelays = async (job: Job) => {
    const { entries } = (await me.get<Timeline>(`${jobPath(job)}timeline/`)).body;
    return entries.filter(({ type }) => type === 'job.delayed').length;
  };
  const readSystem = async (hpc: string) => (await me.get<System>(`/hpc/${hpc}/`)).body;
  const readSystemAsAdmin = async (hpc: string) =>
    (await createCaller(server.url, server.adminToken).get<System>(`/admin/systems/${hpc}/`)).body;
  /** Without the warnings about isolation, which depend on the system and the host. */
  const readWarnings = async () => {
    const { status, warnings = [] } = (await me.get<{ status: string; warnings?: string[] }>('/readyz')).body;
    const delays = warnings.filter((warning) => !warning.includes('not isolated'));
    return delays.length === 0 ? { status } : { status, warnings: delays };
  };
  const readGauge = async (name: string, hpc: string) => {
    const { text } = await me.get('/metrics');
    return Number(new RegExp(`^${name}\\{hpc="${hpc}"\\} (\\S+)$`, 'm').exec(text)?.[1]);
  };
  /** Requires that the job ends without another try. */
  const cancelAtOnce = async (job: Job) => {
    const countTries = () => server.log().match(new RegExp(`${job.job_id}.*job submission failed`, 'g'))?.length;
    // Otherwise the next try would be due after some seconds, which a busy machine needs for the cancellation.
    await queryDatabase(server.data, 'update jobs set due_at = ? where job_id = ?', [
      Date.now() + 3_600_000,
      job.job_id,
    ]);
    const tries = countTries();
    assert.equal((await requestCancel(me, job)).status, 202);
    assert.equal((await me.waitUntilFinished(job)).stage, 'CANCELED');
    assert.equal(countTries(), tries);
  };
  const timeLeft = async (hpc: string) => (await me.quota(hpc, `proj_${hpc}_01`)).time_left;

  test('because of a permanent error is reported at once, can be cancelled at once, and runs after the repair', async () => {
    const workspaces = join(server.data, 'workspaces');
    const before = await timeLeft('hpc_one');
    rmSync(workspaces, { recursive: true, force: true });
    writeFileSync(workspaces, 'a file in place of the folder');
    const [cancelled, repaired] = [
      (await me.submit('/jobs/hpc_one/', { command: 'true' })).body,
      (await me.submit('/jobs/hpc_one/', { command: 'true' })).body,
    ];
    for (const job of [cancelled, repaired]) {
      const { stage, reason } = await waitForDelay(job);
      assert.equal(stage, 'QUEUED');
      assert.match(reason ?? '', /^Bursar could not .* \(ENOTDIR\)\. Contact the operators/);
    }
    const { status, detail } = await readSystem('hpc_one');
    assert.equal(status, 'degraded');
    assert.match(detail, /^2 jobs cannot be submitted at the moment; the timeline of each says why/);
    assert.deepEqual(await readWarnings(), {
      status: 'ok',
      warnings: ['jobs that cannot be submitted to hpc_one: 2, see /admin/systems/hpc_one/'],
    });
    assert.deepEqual(
      [await readGauge('bursar_jobs_delayed', 'hpc_one'), await readGauge('bursar_system_up', 'hpc_one')],
      [2, 0.5],
    );
    // Later tries fail in the same way, but are not reported again. They make the next try a long time away.
    await until('several tries have failed', () =>
      server.log().match(/"delayMs":4000/g)?.length === 2 ? true : undefined,
    );
    await cancelAtOnce(cancelled);
    assert.deepEqual([await countDelays(cancelled), await countDelays(repaired)], [1, 1]);

    rmSync(workspaces);
    assert.equal((await me.waitUntilFinished(repaired)).stage, 'SUCCESSFUL');
    assert.deepEqual(await readWarnings(), { status: 'ok' });
    assert.deepEqual(
      [(await readSystem('hpc_one')).status, await readGauge('bursar_jobs_delayed', 'hpc_one')],
      ['up', 0],
    );
    // Only the job that ran is charged: a second or so of one core.
    assert.ok(before - (await timeLeft('hpc_one')) < 60);
  });

  test('because of its scheduler: users see the status, administrators also the error', async () => {
    const { status, detail } = await until('the system is not up', async () => {
      const system = await readSystem('hpc_two');
      return system.status === 'up' ? undefined : system;
    });
    assert.ok(['degraded', 'down'].includes(status), status);
    assert.match(detail, /^the scheduler (answers slowly or with errors|does not answer)/);
    assert.doesNotMatch(JSON.stringify((await me.get('/hpc/')).body), /bash|could not be started|Install|PATH/);
    assert.match((await readSystemAsAdmin('hpc_two')).detail, /squeue .*could not be started.*Install it/);
    assert.equal((await me.get('/admin/systems/hpc_two/')).status, 403);
    assert.equal((await me.get('/admin/systems/')).status, 403);
  });

  test('because of transient errors is reported after the configured time, and can be cancelled at once', async () => {
    const before = await timeLeft('hpc_two');
    const job = (await me.submit('/jobs/hpc_two/', { tool: 'BASH' }, await createZip({ 'main.sh': 'true\n' }))).body;
    await until('a try has failed', () => (server.log().includes(job.job_id) ? true : undefined));
    const { reason } = await waitForDelay(job);
    assert.match(reason ?? '', /could not be started/);
    const failures = server
      .log()
      .split('\n')
      .filter((line) => line.includes('job submission failed') && line.includes(job.job_id));
    assert.ok(failures.length > 1, 'the first failure was not reported');
    await cancelAtOnce(job);
    assert.equal(await timeLeft('hpc_two'), before);
  });
});
