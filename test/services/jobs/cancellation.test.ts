import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AccountingFixture,
  adminId,
  defaultProjectPath,
  openAccountingFixture,
  setShortKillGrace,
} from '../../support/accounting-fixture.ts';
import { type ApiResponse, type Caller, createCaller, type Job } from '../../support/api.ts';
import { cancelJob, jobPath, releaseJob, requestCancel, waitForGoScript, waitForStage } from '../../support/jobs.ts';
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
import { sendJson } from '../../support/webhooks.ts';
import { createZip } from '../../support/zip.ts';

let fixture: AccountingFixture;
let me: Caller;

before(async () => {
  fixture = await openAccountingFixture({
    adjust: (config) => {
      setShortKillGrace(config);
      for (const { engine } of Object.values(config.systems)) engine.cores = 4;
    },
  });
  me = await fixture.user('301751');
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

const outputPath = (job: Job) => join(fixture.server.data, 'workspaces', job.job_id, 'stdout');
const endOf = async (job: Job) => {
  const [row] = await fixture.query<{ outcome: string; reason: string }>(
    'select outcome, reason from jobs where job_id = ?',
    job.job_id,
  );
  return row;
};

function assertCancelled(job: Job): void {
  assert.deepEqual([job.stage, job.terminal_stage, job.failed], ['CANCELED', true, false]);
  assert.match(job.end_date ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
}

describe('POST …/cancel/', { concurrency: true }, () => {
  test('cancels a job right after it was accepted, or while it is being submitted', async () => {
    const owner = await fixture.user('301752');
    const zip = await createZip(Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`f${i}`, 'x'])));
    for (const delayMs of [0, 0, 2, 5, 10, 20]) {
      const job = await submitJob(owner, { command: waitForGoScript }, zip);
      await sleep(delayMs);
      const { status, body, text } = await requestCancel(owner, job);
      assert.ok(status === 202 || body.terminal_stage, text);
      assertCancelled(await owner.waitUntilFinished(job));
    }
    await assertStatementAddsUp(owner);
  });

  test('returns 202 with the job as it is, without waiting for its end, and keeps its files', async () => {
    const owner = await fixture.user('301753');
    const job = await submitJob(owner, { command: `touch begun; echo kept; ${ignoresTermScript}` });
    await waitUntilBegun(fixture, job);
    const running = await waitForStage(owner, job, 'RUNNING');
    const response = await requestCancel(owner, job);
    assert.deepEqual([response.status, response.text], [202, running.text]);
    assertCancelled(await owner.waitUntilFinished(job));
    assert.deepEqual(await endOf(job), { outcome: 'cancelled', reason: 'cancelled by its owner' });
    assert.equal((await listJobMovements(owner, job)).at(-1)?.reason, 'used: cancelled');
    assert.ok(existsSync(outputPath(job)));
  });

  test('cancels a job of a system with other stage names', async () => {
    const zip = await createZip({ 'main.sh': `${waitForGoScript}\n` });
    const job = await submitJob(me, { tool: 'BASH' }, zip, 'hpc_two/proj_hpc_two_01');
    await waitForStage(me, job, 'RUNNING');
    assertCancelled(await cancelJob(me, job));
  });

  test('returns 200 with an ended job, whatever its outcome, and changes neither job nor files', async () => {
    const owner = await fixture.user('301754');
    const running = await submitJob(owner, { command: markBegunScript });
    await waitUntilBegun(fixture, running);
    const cancelled = await cancelJob(owner, running);
    for (const job of [
      await runJob(owner, { command: 'echo some output' }),
      await runJob(owner, { command: 'exit 1' }),
      cancelled,
    ]) {
      const before = await owner.get(jobPath(job));
      const movements = (await getStatement(owner)).time.movements;
      for (let i = 0; i < 3; i++) {
        const response = await requestCancel(owner, job);
        assert.deepEqual([response.status, response.text], [200, before.text]);
      }
      assert.equal((await owner.get(jobPath(job))).text, before.text);
      assert.ok(existsSync(outputPath(job)), 'a late or repeated cancellation must not delete results');
      assert.deepEqual((await getStatement(owner)).time.movements, movements);
    }
  });

  test('returns 200 with a deleted job', async () => {
    const job = await runJob(me, { command: 'true' });
    const deleted = await me.send('DELETE', jobPath(job));
    const response = await requestCancel(me, job);
    assert.deepEqual([response.status, response.text], [200, deleted.text]);
  });

  test('that meets the end of the job leaves one end, its files and one settlement', async () => {
    const owner = await fixture.user('301755');
    const jobs = await Promise.all(Array.from({ length: 8 }, () => submitJob(owner, { command: 'echo done' })));
    await Promise.all(
      jobs.map(async (job) => {
        let response: ApiResponse<Job>;
        do {
          await sleep(10);
          response = await requestCancel(owner, job);
          assert.ok(response.status === 200 || response.status === 202, response.text);
          assert.equal(response.status === 200, response.body.terminal_stage);
        } while (response.status === 202);
        assert.match(response.body.stage, /^(SUCCESSFUL|CANCELED)$/);
        assert.equal((await owner.get(jobPath(job))).text, response.text);
        assert.equal((await listJobMovements(owner, job)).length, 2);
      }),
    );
    await assertStatementAddsUp(owner);
  });

  test('accepts a body, which it ignores, and a path without the trailing slash', async () => {
    const job = await runJob(me, { command: 'true' });
    for (const [suffix, headers, body] of [
      ['cancel', {}, undefined],
      ['cancel/', { 'content-type': 'application/json' }, '{}'],
    ] as const) {
      const response = await me.send('POST', jobPath(job) + suffix, headers, body);
      assert.equal(response.status, 200, response.text);
    }
  });

  test('with an Idempotency-Key returns the first response again, and only for the same job', async () => {
    const [job, other] = [
      await submitJob(me, { command: waitForGoScript }),
      await submitJob(me, { command: waitForGoScript }),
    ];
    const key = { 'idempotency-key': `cancel-${job.job_id}` };
    const first = await requestCancel(me, job, key);
    assert.equal(first.status, 202, first.text);
    await me.waitUntilFinished(job);
    const repeated = await requestCancel(me, job, key);
    assert.deepEqual([repeated.status, repeated.text], [202, first.text]);
    assertProblem(await requestCancel(me, other, key), { status: 422, code: 'idempotency_key_reused' });
    const invalid = await requestCancel(me, other, { 'idempotency-key': 'x'.repeat(201) });
    assertProblem(invalid, { status: 400, code: 'idempotency_key_invalid' });
    assert.equal((await me.get<Job>(jobPath(other))).body.terminal_stage, false);
    assertCancelled(await cancelJob(me, other));
  });

  test("returns 404 for another user's job and for unknown ones, 401 without a token, and cancels nothing", async () => {
    const other = await fixture.user('301756');
    const job = await submitJob(me, { command: markBegunScript });
    await waitUntilBegun(fixture, job);
    for (const caller of [other, fixture.admin]) {
      assertProblem(await requestCancel(caller, job), { status: 404, code: 'job_unknown' });
    }
    for (const [path, code] of [
      [`/jobs/hpc_two/proj_hpc_two_01/${job.job_id}/`, 'job_unknown'],
      [`/jobs/${defaultProjectPath}/00000000-0000-0000-0000-000000000000/`, 'job_unknown'],
      [`/jobs/hpc_one/proj_hpc_two_01/${job.job_id}/`, 'project_unknown'],
      [`/jobs/HPC_ONE/proj_hpc_one_01/${job.job_id}/`, 'system_unknown'],
    ] as const) {
      assertProblem(await me.send('POST', `${path}cancel/`), { status: 404, code });
    }
    const anonymous = createCaller(fixture.server.url, null);
    assertProblem(await requestCancel(anonymous, job), { status: 401, code: 'token_missing' });
    releaseJob(fixture.server, job);
    assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
  });

  test('counts for the rate limits, and the path supports no other method', async () => {
    const job = await runJob(me, { command: 'true' });
    assert.match((await requestCancel(me, job)).headers.get('ratelimit') ?? '', /;r=\d+/);
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      const response = await me.send(method, `${jobPath(job)}cancel/`);
      assertProblem(response, { status: 405, code: 'method_not_allowed' });
      assert.equal(response.headers.get('allow'), 'POST');
    }
  });
});

describe('administrators', { concurrency: true }, () => {
  const readAudit = async (job: Job) => {
    const { body } =
      await fixture.admin.get<{ action: string; subject: string; actor: string; details: unknown }[]>(
        '/admin/audit/?limit=1000',
      );
    const records = body.filter(({ subject }) => subject.endsWith(job.job_id));
    return records.map(({ action, actor, subject, details }) => ({ action, actor, subject, details })).toReversed();
  };

  test('cancel and delete the job of a user at its path after /admin, which is audited once', async () => {
    const owner = await fixture.user('301757');
    const path = (job: Job) => `/admin${jobPath(job)}`;
    const job = await submitJob(owner, { command: `echo output; ${markBegunScript}` });
    await waitUntilBegun(fixture, job);
    const reason = { reason: 'because of a test' };
    const deletePath = `${path(job)}?reason=because+of+a+test`;
    assertProblem(await fixture.admin.send('DELETE', deletePath), { status: 409, code: 'job_not_finished' });
    assertProblem(await owner.send('POST', `${path(job)}cancel/`), { status: 403, code: 'forbidden' });
    assertProblem(await owner.send('DELETE', deletePath), { status: 403, code: 'forbidden' });
    for (let i = 0; i < 2; i++) {
      const { status, text } = await sendJson(fixture.admin, 'POST', `${path(job)}cancel/`, reason);
      assert.ok(status === 202 || i > 0, text);
    }
    await requestCancel(owner, job);

    // Not cancelled by its owner, so the job has failed; the first request decides.
    const ended = await owner.waitUntilFinished(job);
    assert.deepEqual([ended.stage, ended.failed], ['FAILED', true]);
    assert.deepEqual(await endOf(job), { outcome: 'cancelled_by_site', reason: 'cancelled by an administrator' });
    assert.ok(existsSync(outputPath(job)));

    for (let i = 0; i < 2; i++) {
      const { status, body, text } = await fixture.admin.send('DELETE', deletePath);
      assert.deepEqual([status, (body as Job).stage], [200, 'DELETED'], text);
    }
    await until('its files are removed', () => !existsSync(outputPath(job)) || undefined);
    const details = { owner: '301757', ...reason };
    const record = { actor: adminId, subject: `${defaultProjectPath}/${job.job_id}`, details };
    assert.deepEqual(await readAudit(job), [
      { action: 'job.cancel', ...record },
      { action: 'job.delete', ...record },
    ]);
    const freed = (await listJobMovements(owner, job, 'space')).filter(({ kind }) => kind === 'free');
    assert.deepEqual(
      freed.map(({ actor }) => actor),
      [adminId],
    );
  });
});

// Not in the concurrent suites above, because it needs all cores of the system.
test('a job that waits for free cores is cancelled', async () => {
  const blockingJob = await submitJob(me, { command: waitForGoScript, core_number: 4 });
  await waitForStage(me, blockingJob, 'RUNNING');
  const job = await submitJob(me, { command: 'true' });
  await until('the job is queued at the engine', async () => {
    const [row] = await fixture.query<{ state: string }>('select state from jobs where job_id = ?', job.job_id);
    return row?.state === 'queued' ? true : undefined;
  });
  assertCancelled(await cancelJob(me, job));
  releaseJob(fixture.server, blockingJob);
  assert.equal((await me.waitUntilFinished(blockingJob)).stage, 'SUCCESSFUL');
});
