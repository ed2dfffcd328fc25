import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type AccountingFixture, defaultProjectPath, openAccountingFixture } from '../../support/accounting-fixture.ts';
import { type ApiResponse, type Caller, createCaller, type Job } from '../../support/api.ts';
import { cancelJob, jobPath, releaseJob, requestCancel, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  getStatement,
  listJobMovements,
  markBegunScript,
  runJob,
  submitJob,
  waitUntilBegun,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

let fixture: AccountingFixture;
let me: Caller;

before(async () => {
  fixture = await openAccountingFixture({
    adjust: ({ systems }) => {
      for (const { engine } of Object.values(systems)) engine.cores = 4;
    },
  });
  me = await fixture.user('301701');
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

const remove = async (caller: Caller, job: Job) => (await caller.send('DELETE', jobPath(job))) as ApiResponse<Job>;
const workspacePath = (job: Job) => join(fixture.server.data, 'workspaces', job.job_id);

describe('DELETE', { concurrency: true }, () => {
  test('returns 409 for an unfinished job, which continues', async () => {
    const owner = await fixture.user('301702');
    const job = await submitJob(owner, { command: markBegunScript });
    const assertRejected = async () =>
      assertProblem(await remove(owner, job), {
        status: 409,
        code: 'job_not_finished',
        message: new RegExp(`Cancel it first with POST …/${job.job_id}/cancel/`),
      });
    await assertRejected();
    await waitUntilBegun(fixture, job);
    await waitForStage(owner, job, 'RUNNING');
    await assertRejected();
    releaseJob(fixture.server, job);
    assert.equal((await owner.waitUntilFinished(job)).stage, 'SUCCESSFUL');
    assert.ok(existsSync(workspacePath(job)));
  });

  test('of a job that runs is answered at once, as are cancellations: many wait for nothing', async () => {
    const owner = await fixture.user('301709');
    const job = await submitJob(owner, { command: markBegunScript });
    await waitForStage(owner, job, 'RUNNING');
    const deletions = await Promise.all(Array.from({ length: 60 }, () => remove(owner, job)));
    assert.deepEqual(new Set(deletions.map(({ status }) => status)), new Set([409]));
    assert.equal((await owner.get<Job>(jobPath(job))).body.stage, 'RUNNING', 'none of them has waited for the end');
    const cancellations = await Promise.all(Array.from({ length: 60 }, () => requestCancel(owner, job)));
    assert.ok(cancellations.every(({ status, body }) => (status === 200) === body.terminal_stage));
    assert.ok(
      cancellations.some(({ status }) => status === 202),
      'the first of them did not wait for the end',
    );
    await owner.waitUntilFinished(job);
  });

  test('that meets the end of the job returns 409 until the end is stored, and then deletes the files', async () => {
    const owner = await fixture.user('301703');
    const jobs = await Promise.all(Array.from({ length: 8 }, () => submitJob(owner, { command: 'echo done' })));
    await Promise.all(
      jobs.map(async (job) => {
        let response: ApiResponse<Job>;
        do {
          await sleep(10);
          response = await remove(owner, job);
          assert.ok(response.status === 200 || response.status === 409, response.text);
        } while (response.status === 409);
        assert.deepEqual([response.body.stage, response.body.failed], ['DELETED', false]);
        await until('its files are removed', () => !existsSync(workspacePath(job)) || undefined);
        assert.equal((await listJobMovements(owner, job)).at(-1)?.reason, 'used: succeeded');
      }),
    );
    await assertStatementAddsUp(owner);
  });

  test('deletes the whole workspace of a finished job', async () => {
    const zip = await createZip({ 'run.sh': '#!/bin/sh\nmkdir -p a/b && echo x > a/b/c && chmod 500 a/b\n' });
    const job = await runJob(me, { command: 'sbatch run.sh' }, zip);
    assert.equal(job.stage, 'SUCCESSFUL');
    assert.ok(existsSync(workspacePath(job)));
    const { status, body } = await remove(me, job);
    assert.equal(status, 200);
    assert.deepEqual(body, { ...job, stage: 'DELETED' });
    await until('its files are removed', () => !existsSync(workspacePath(job)) || undefined);
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
    const cancelled = await cancelJob(me, job);
    assert.deepEqual((await remove(me, job)).body, { ...cancelled, stage: 'DELETED', failed: false });
    await until('its files are removed', () => !existsSync(workspacePath(job)) || undefined);
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
  });
});
