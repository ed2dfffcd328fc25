import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  adminId,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import type { Caller, Job } from '../../support/api.ts';
import { cancelJob, jobPath, unrunnableScript, waitForGoScript } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  listJobMovements,
  postAsAdmin,
  postCreated,
  runJob,
  setMember,
  submitJob,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { grantedProjects } from './granted-projects.ts';

// Refunds for jobs by POST /admin/grants/…/refunds/.

const reason = 'because of a test';
let fixture: AccountingFixture;
let admin: Caller;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: 10_000, spaceKb: 100 });
  admin = fixture.admin;
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

const { createProjectFor, getMemberQuota } = grantedProjects(() => fixture);

describe('a refund', () => {
  const path = `/admin/grants/${defaultProjectPath}/refunds/`;
  let me: Caller;
  let job: Job;
  let charged: number;

  before(async () => {
    me = await fixture.user('302111');
    job = await runJob(me, { command: 'true', core_number: 100, runtime: 0.01 });
    charged = (await listJobMovements(me, job)).at(-1)?.used ?? Number.NaN;
  });

  test('is limited to the charge of the job, also in several parts', async () => {
    assert.ok(charged >= 100);
    const refund = (amount: number) => postAsAdmin(admin, path, { job_id: job.job_id, amount, reason });
    assertProblem(await refund(charged + 1), {
      status: 409,
      code: 'conflict',
      message: new RegExp(`: ${charged} seconds\\.$`),
    });
    assert.equal((await refund(40)).status, 201);
    assert.equal((await refund(charged - 60)).status, 201);
    assertProblem(await refund(21), { status: 409, code: 'conflict', message: /: 20 seconds\.$/ });
    assert.equal((await refund(20)).status, 201);
    assertProblem(await refund(1), { status: 409, code: 'conflict', message: /: 0 seconds\.$/ });
    assert.equal((await getMemberQuota('302111', defaultProjectPath)).time_left, 10_000);
    const refunds = (await listJobMovements(me, job)).filter(({ kind }) => kind === 'refund');
    assert.equal(
      refunds.reduce((sum, { used }) => sum - used, 0),
      charged,
    );
    for (const { actor, reason: refundReason } of refunds) assert.deepEqual([actor, refundReason], [adminId, reason]);
    await assertStatementAddsUp(me);
  });

  test('returns the pool and the cap after the refund', async () => {
    const other = await runJob(me, { command: 'true', core_number: 10, runtime: 0.01 });
    const used = (await listJobMovements(me, other)).at(-1)?.used ?? Number.NaN;
    const [pool, cap] = await postCreated(admin, path, { job_id: other.job_id, amount: used, reason });
    assert.deepEqual([pool?.user, cap?.user, cap?.used, cap?.available], [null, '302111', 0, 10_000]);
  });

  test('is rejected for a job without a charge, which never ran or has not ended', async () => {
    const rejected = await runJob(me, { command: unrunnableScript.command }, unrunnableScript.zip);
    const running = await submitJob(me, { command: waitForGoScript });
    for (const { job_id } of [rejected, running]) {
      assertProblem(await postAsAdmin(admin, path, { job_id, amount: 1, reason }), { status: 409, code: 'conflict' });
    }
    await cancelJob(me, running);
  });

  test('returns 404 for a job that is not in the project', async () => {
    const otherProject = await createProjectFor('302111');
    const body = { job_id: job.job_id, amount: 1, reason };
    assertProblem(await postAsAdmin(admin, `/admin/grants/${otherProject}/refunds/`, body), {
      status: 404,
      code: 'job_unknown',
    });
    const unknown = { ...body, job_id: 'NO-SUCH-JOB' };
    assertProblem(await postAsAdmin(admin, path, unknown), { status: 404, code: 'job_unknown' });
  });

  test('is accepted for a job whose files are deleted and whose owner is banned', async () => {
    const owner = await fixture.user('302112');
    const done = await runJob(owner, { command: 'true' });
    const used = (await listJobMovements(owner, done)).at(-1)?.used ?? Number.NaN;
    await owner.send('DELETE', jobPath(done));
    await setMember(admin, defaultProjectPath, '302112', 'banned', 'for a test');
    await postCreated(admin, path, { job_id: done.job_id, amount: used, reason });
    assert.equal((await getMemberQuota('302112', defaultProjectPath)).time_left, 10_000);
  });
});
