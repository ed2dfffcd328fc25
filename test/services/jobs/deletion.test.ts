import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  adminId,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import { type ApiResponse, type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  getStatement,
  ignoresTermScript,
  listJobMovements,
  markBegunScript,
  runJob,
  submitJob,
  waitUntilBegun,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

// DELETE on a job cancels an unfinished job, and deletes the files of a finished one.

let fixture: AccountingFixture;
let me: Caller;

before(async () => {
  fixture = await openAccountingFixture({
    adjust: ({ systems }) => {
      for (const { engine } of Object.values(systems)) {
        engine.cores = 4;
        // Longer than a DELETE request waits, so that cancelling a job that ignores SIGTERM returns 202.
        engine.killGraceSeconds = 13;
      }
    },
  });
  me = await fixture.user('301701');
});
after(async () => {
  await assertLedgerBalances(fixture.admin);
  await fixture.dispose();
});

const remove = async (caller: Caller, job: Job) => (await caller.send('DELETE', jobPath(job))) as ApiResponse<Job>;
const workspacePath = (job: Job) => join(fixture.server.data, 'workspaces', job.job_id);

function assertCancelled({ body: job }: ApiResponse<Job>): void {
  assert.deepEqual([job.stage, job.terminal_stage, job.failed], ['CANCELED', true, false]);
  assert.match(job.end_date ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
}

describe('DELETE', { concurrency: true }, () => {
  test('cancels a job right after it was accepted', async () => {
    const owner = await fixture.user('301702');
    for (let i = 0; i < 5; i++) {
      const job = await submitJob(owner, { command: waitForGoScript });
      const response = await remove(owner, job);
      assert.equal(response.status, 200, response.text);
      assertCancelled(response);
      assert.equal((await owner.get(jobPath(job))).text, response.text);
    }
    await assertStatementAddsUp(owner);
  });

  test('cancels a running job and keeps its workspace', async () => {
    const owner = await fixture.user('301703');
    const job = await submitJob(owner, { command: markBegunScript });
    await waitUntilBegun(fixture, job);
    await waitForStage(owner, job, 'RUNNING');
    const response = await remove(owner, job);
    assert.equal(response.status, 200, response.text);
    assertCancelled(response);
    assert.ok(existsSync(workspacePath(job)), 'the workspace is kept until the job is deleted');
  });

  test('cancels and deletes a job of a system with other stage names', async () => {
    const owner = await fixture.user('301704');
    const zip = await createZip({ 'main.sh': `${waitForGoScript}\n` });
    const job = await submitJob(owner, { tool: 'BASH' }, zip, 'hpc_two/proj_hpc_two_01');
    await waitForStage(owner, job, 'RUNNING');
    assertCancelled(await remove(owner, job));
    const deleted = await remove(owner, job);
    assert.deepEqual([deleted.status, deleted.body.stage, deleted.body.failed], [200, 'DELETED', false]);
  });

  test('returns 202 while the system is still stopping the job, which then ends as cancelled', async () => {
    const owner = await fixture.user('301705');
    const job = await submitJob(owner, { command: `touch begun; ${ignoresTermScript}` });
    await waitUntilBegun(fixture, job);
    await waitForStage(owner, job, 'RUNNING');
    const response = await remove(owner, job);
    assert.deepEqual([response.status, response.body.stage, response.body.terminal_stage], [202, 'RUNNING', false]);
    const { stage, failed } = await owner.waitUntilFinished(job);
    assert.deepEqual([stage, failed], ['CANCELED', false]);
    assert.equal((await listJobMovements(owner, job)).at(-1)?.reason, 'used: cancelled');
  });

  test('deletes the whole workspace of a finished job', async () => {
    const zip = await createZip({ 'run.sh': '#!/bin/sh\nmkdir -p a/b && echo x > a/b/c && chmod 500 a/b\n' });
    const job = await runJob(me, { command: 'sbatch run.sh' }, zip);
    assert.equal(job.stage, 'SUCCESSFUL');
    assert.ok(existsSync(workspacePath(job)));
    const { status, body } = await remove(me, job);
    assert.equal(status, 200);
    assert.deepEqual(body, { ...job, stage: 'DELETED' });
    assert.ok(!existsSync(workspacePath(job)));
    assert.deepEqual((await me.get<Job>(jobPath(job))).body, body);
    const listed = (await me.get<Job[]>(`/jobs/${defaultProjectPath}/`)).body.find(({ id }) => id === job.id);
    assert.deepEqual(listed, body, 'the job stays in the lists');
  });

  test('keeps `failed` true for a failed job', async () => {
    const job = await runJob(me, { command: 'exit 1' });
    assert.deepEqual((await remove(me, job)).body, { ...job, stage: 'DELETED', failed: true });
  });

  test('deletes the files of a cancelled job, and keeps `failed` false', async () => {
    const job = await submitJob(me, { command: markBegunScript });
    await waitUntilBegun(fixture, job);
    const cancelled = (await remove(me, job)).body;
    assert.deepEqual((await remove(me, job)).body, { ...cancelled, stage: 'DELETED', failed: false });
    assert.ok(!existsSync(workspacePath(job)));
  });

  test('returns the same response when repeated, without ledger movements', async () => {
    const owner = await fixture.user('301706');
    const job = await runJob(owner, { command: 'echo some output' });
    const first = await remove(owner, job);
    const { time, space } = await getStatement(owner);
    for (let i = 0; i < 3; i++) {
      const repeated = await remove(owner, job);
      assert.deepEqual([repeated.status, repeated.text], [200, first.text]);
    }
    const after = await getStatement(owner);
    assert.deepEqual([after.time.movements, after.space.movements], [time.movements, space.movements]);
  });

  test('returns 200 to each of many concurrent requests for a job with many files', async () => {
    const owner = await fixture.user('301707');
    const job = await runJob(owner, { command: 'for i in $(seq 300); do mkdir -p d$i/e; echo $i > d$i/e/f; done' });
    const responses = await Promise.all(Array.from({ length: 12 }, () => remove(owner, job)));
    for (const { status, body, text } of responses) assert.deepEqual([status, body.stage], [200, 'DELETED'], text);
    await until('its files are gone', () => (existsSync(workspacePath(job)) ? undefined : true));
    await assertStatementAddsUp(owner);
  });

  test('works without the trailing slash', async () => {
    const job = await runJob(me, { command: 'true' });
    const response = await me.send('DELETE', jobPath(job).replace(/\/$/, ''));
    assert.deepEqual([response.status, (response.body as Job).stage], [200, 'DELETED']);
  });

  test("returns 404 for another user's job, even to administrators, and does not change the job", async () => {
    const other = await fixture.user('301708');
    const running = await submitJob(me, { command: markBegunScript });
    await waitUntilBegun(fixture, running);
    const finished = await runJob(me, { command: 'true' });
    for (const caller of [other, fixture.admin]) {
      for (const job of [running, finished]) {
        assertProblem(await remove(caller, job), { status: 404, code: 'job_unknown' });
      }
    }
    assert.equal((await waitForStage(me, running, 'RUNNING')).body.stage, 'RUNNING');
    assert.equal((await me.get<Job>(jobPath(finished))).body.stage, 'SUCCESSFUL');
    releaseJob(fixture.server, running);
    assert.equal((await me.waitUntilFinished(running)).stage, 'SUCCESSFUL');
  });

  test('returns 404 for an unknown job, project or system', async () => {
    const { job_id } = await runJob(me, { command: 'true' });
    for (const [path, code] of [
      [`/jobs/hpc_two/proj_hpc_two_01/${job_id}/`, 'job_unknown'],
      [`/jobs/${defaultProjectPath}/00000000-0000-0000-0000-000000000000/`, 'job_unknown'],
      [`/jobs/${defaultProjectPath}/..%2f..%2fbursar.db/`, 'job_unknown'],
      [`/jobs/hpc_one/proj_hpc_two_01/${job_id}/`, 'project_unknown'],
      [`/jobs/HPC_ONE/proj_hpc_one_01/${job_id}/`, 'system_unknown'],
    ] as const) {
      assertProblem(await me.send('DELETE', path), { status: 404, code });
    }
    assert.equal((await me.get<Job>(`/jobs/${defaultProjectPath}/${job_id}/`)).body.stage, 'SUCCESSFUL');
  });

  test('returns 401 without a token and with an invalid one', async () => {
    const job = await runJob(me, { command: 'true' });
    for (const [token, code] of [
      [null, 'token_missing'],
      ['bursar_nobody', 'token_invalid'],
    ] as const) {
      const response = await createCaller(fixture.server.url, token).send('DELETE', jobPath(job));
      assertProblem(response, { status: 401, code });
      assert.match(response.headers.get('www-authenticate') ?? '', /^Bearer/);
    }
    assert.equal((await me.get<Job>(jobPath(job))).body.stage, 'SUCCESSFUL');
  });

  test('returns 405 for other resources; the Allow header of a job contains DELETE', async () => {
    const job = await runJob(me, { command: 'true' });
    for (const path of [
      '/jobs/',
      '/jobs/hpc_one/',
      `/jobs/${defaultProjectPath}/`,
      `/quotas/${defaultProjectPath}/`,
      '/quotes/hpc_one/',
    ]) {
      const response = await me.send('DELETE', path);
      assertProblem(response, { status: 405, code: 'method_not_allowed' });
      assert.doesNotMatch(response.headers.get('allow') ?? 'DELETE', /DELETE/);
    }
    for (const method of ['PUT', 'PATCH', 'POST']) {
      const response = await me.send(method, jobPath(job));
      assertProblem(response, { status: 405, code: 'method_not_allowed' });
      assert.equal(response.headers.get('allow'), 'GET, HEAD, DELETE');
    }
    const adminResponse = await fixture.admin.send('DELETE', `/admin${jobPath(job)}`);
    assertProblem(adminResponse, { status: 405, code: 'method_not_allowed' });
    assert.equal((await fixture.admin.get<Job>(`/admin${jobPath(job)}`)).body.owner, '301701');
    assert.notEqual(adminId, '301701');
  });
});

// Not in the concurrent suite above, because it needs all cores of the system.
test('DELETE cancels a job that waits for free cores', async () => {
  const blockingJob = await submitJob(me, { command: waitForGoScript, core_number: 4 });
  await waitForStage(me, blockingJob, 'RUNNING');
  const job = await submitJob(me, { command: 'true' });
  await until('the job is queued at the engine', async () => {
    const [row] = await fixture.query<{ state: string }>('select state from jobs where job_id = ?', job.job_id);
    return row?.state === 'queued' ? true : undefined;
  });
  assert.equal((await me.get<Job>(jobPath(job))).body.stage, 'QUEUED');
  const response = await remove(me, job);
  assert.equal(response.status, 200, response.text);
  assertCancelled(response);
  releaseJob(fixture.server, blockingJob);
  assert.equal((await me.waitUntilFinished(blockingJob)).stage, 'SUCCESSFUL');
});
