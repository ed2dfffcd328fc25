import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, defaultProjectPath, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { Caller, Job } from '../../support/api.ts';
import { cancelJob, releaseJob, unrunnableScript, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  type Account,
  assertLedgerBalances,
  assertQuotaExceeded,
  assertStatementAddsUp,
  createProject,
  getQuota,
  getSettlement,
  getStatement,
  markBegunScript,
  postCreated,
  type Quote,
  runJob,
  runOverrun,
  submitJob,
  topUp,
  waitUntilBegun,
  withdrawDownTo,
} from '../../support/ledger.ts';
import { findScheduler } from '../../support/simulated-systems.ts';

// Each outcome of a job and its charge to the time account, through real HTTP and real processes.

const granted = 100_000;
let fixture: AccountingFixture;

before(async () => {
  fixture = await openAccountingFixture({
    timeSeconds: granted,
    spaceKb: 1000,
    adjust: (config) => {
      Object.assign(config, { submissions: { maxEntries: 5 } });
      for (const { engine, limits } of Object.values(config.systems)) {
        engine.cores = 4;
        limits.files = 10;
      }
    },
  });
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

async function assertReleased(caller: Caller, job: Job, rule: RegExp, project = defaultProjectPath): Promise<void> {
  const { held, settled } = await getSettlement(caller, job, project);
  assert.deepEqual([settled.kind, settled.change, settled.used], ['release', held, 0]);
  assert.match(settled.reason, rule, 'the entry names the rule');
}

async function assertCharged(caller: Caller, job: Job, rule: string, units = 1): Promise<number> {
  const { settled } = await getSettlement(caller, job);
  assert.deepEqual([settled.kind, settled.reason], ['charge', rule]);
  assert.ok(settled.used >= units && settled.used % units === 0, JSON.stringify(settled));
  assert.equal(settled.change, -settled.used);
  return settled.used;
}

describe('the hold is released in full for', () => {
  test('a batch job whose script cannot run', async () => {
    const me = await fixture.user('301601');
    const job = await runJob(me, { command: unrunnableScript.command, core_number: 2 }, unrunnableScript.zip);
    assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    await assertReleased(me, job, /^never ran: rejected/);
    assert.equal((await getQuota(me)).time_left, granted);
  });

  test('a job that is cancelled before it starts', async () => {
    const me = await fixture.user('301603');
    const blockingJob = await submitJob(me, { command: waitForGoScript, core_number: 4 });
    await waitForStage(me, blockingJob, 'RUNNING');
    const job = await submitJob(me, { command: 'true', core_number: 4 });
    const { stage, failed } = await cancelJob(me, job);
    assert.deepEqual([stage, failed], ['CANCELED', false]);
    await assertReleased(me, job, /^never ran: cancelled$/);
    releaseJob(fixture.server, blockingJob);
    await me.waitUntilFinished(blockingJob);
  });

  test('a running job whose node failed', async () => {
    const me = await fixture.user('301604');
    const before = (await getQuota(me)).time_left;
    const job = await submitJob(me, { command: waitForGoScript });
    await waitForStage(me, job, 'RUNNING');
    findScheduler(fixture.server.data, 'hpc_one').failNode(() => 0.99, 0);
    const ended = await me.waitUntilFinished(job);
    assert.deepEqual([ended.stage, ended.failed], ['FAILED', true]);
    await assertReleased(me, job, /node failure/);
    assert.equal((await getQuota(me)).time_left, before);
  });
});

describe('the used time is charged for', () => {
  test('a job that is cancelled while running', async () => {
    const me = await fixture.user('301611');
    const job = await submitJob(me, { command: markBegunScript, core_number: 3 });
    await waitUntilBegun(fixture, job);
    await waitForStage(me, job, 'RUNNING');
    const { stage, failed } = await cancelJob(me, job);
    assert.deepEqual([stage, failed], ['CANCELED', false]);
    const used = await assertCharged(me, job, 'used: cancelled', 3);
    assert.equal((await getQuota(me)).time_left, granted - used);
  });

  test('a job that fails', async () => {
    const me = await fixture.user('301612');
    const job = await runJob(me, { command: 'exit 7', node_number: 2 });
    assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    const used = await assertCharged(me, job, 'used: failed', 2);
    assert.equal((await getQuota(me)).time_left, granted - used);
  });

  test('a job that leaves more files than it may', async () => {
    const me = await fixture.user('301613');
    const job = await runJob(me, { command: 'touch {1..20}' });
    assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    await assertCharged(me, job, 'used: output_exceeded');
  });

  test('a job that reaches its time limit, for each core', async () => {
    const me = await fixture.user('301614');
    const job = await runJob(me, { command: 'sleep 600', core_number: 2, runtime: 1 / 3600 });
    assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    const used = await assertCharged(me, job, 'used: timed_out', 2);
    assert.equal(used, 2, 'no more than the granted runtime');
    assert.equal((await getQuota(me)).time_left, granted - used);
  });

  test('a job that succeeds, with the elapsed time that the engine measured', async () => {
    const me = await fixture.user('301615');
    const job = await runJob(me, { command: 'true', core_number: 4 });
    const [row] = await fixture.query<{ elapsed_seconds: number }>(
      'select elapsed_seconds from jobs where job_id = ?',
      job.job_id,
    );
    assert.equal(await assertCharged(me, job, 'used: succeeded', 4), 4 * (row?.elapsed_seconds ?? Number.NaN));
  });
});

describe('an overrun', () => {
  const user = '301621';
  let me: Caller;
  let job: Job;
  let overrun: number;

  before(async () => {
    me = await fixture.user(user);
    await withdrawDownTo(fixture.admin, user, { time: 100 });
    job = await runOverrun(fixture, me, { runtime: 100 / 3600 });
  });

  test('is charged in full, beyond the hold and the quota', async () => {
    assert.equal(job.stage, 'SUCCESSFUL');
    const { held, settled } = await getSettlement(me, job);
    assert.equal(held, 100);
    assert.ok(settled.used > 100, JSON.stringify(settled));
    overrun = settled.used - 100;
    assert.equal(settled.balance, -overrun);
    const { time } = await getStatement(me);
    assert.equal(time.closing_balance, -overrun);
  });

  test('shows a quota of zero, never a negative one', async () => {
    assert.equal((await getQuota(me)).time_left, 0);
    await assertStatementAddsUp(me);
  });

  test('blocks new jobs, in submissions and in quotes', async () => {
    const payload = { command: 'true', runtime: 1 / 3600 };
    assertQuotaExceeded(await me.submit(`/jobs/${defaultProjectPath}/`, payload), {
      needed: 1,
      available: 0,
      account: 'cap',
    });
    const quote = (await me.send('POST', `/quotes/${defaultProjectPath}/`, { payload: JSON.stringify(payload) }))
      .body as Quote;
    assert.deepEqual([quote.accepted, quote.time_left, quote.longest_runtime], [false, 0, 0]);
  });

  test('blocks new jobs until a top-up covers it, to the second', async () => {
    const payload = { command: 'true', runtime: 1 / 3600 };
    const [, cap] = await topUp(fixture.admin, user, overrun);
    assert.equal(cap?.available, 0);
    assertQuotaExceeded(await me.submit(`/jobs/${defaultProjectPath}/`, payload), { available: 0 });
    await topUp(fixture.admin, user, 1);
    assert.equal((await getQuota(me)).time_left, 1);
    await runJob(me, payload);
    await assertStatementAddsUp(me);
  });

  test('can be covered by a refund of the job', async () => {
    const { settled } = await getSettlement(me, job);
    const reason = 'the node was slow';
    const refund = { job_id: job.job_id, amount: settled.used, reason };
    await postCreated<Account[]>(fixture.admin, `/admin/grants/${defaultProjectPath}/refunds/`, refund);
    assert.ok((await getQuota(me)).time_left > 0);
    await assertStatementAddsUp(me);
    await assertLedgerBalances(fixture.server);
  });
});

describe('an overrun that empties the pool', () => {
  let project: string;
  let otherMember: Caller;
  let poolLeft: number;

  before(async () => {
    const overrunner = await fixture.user('301631');
    otherMember = await fixture.user('301632');
    project = await createProject(fixture.admin, 'narrow', ['301631', '301632'], { timeSeconds: 100 });
    await runOverrun(fixture, overrunner, { runtime: 100 / 3600 }, project);
    const topUpReserve = { kind: 'top_up', resource: 'time', amount: 5, reason: 'more reserve' };
    const [pool] = await postCreated<Account[]>(fixture.admin, `/admin/grants/${project}/`, topUpReserve);
    poolLeft = pool?.available ?? Number.NaN;
  });

  test('limits the other members to what is left in the pool', async () => {
    assert.ok(poolLeft < 10, String(poolLeft));
    assert.equal((await otherMember.quota('hpc_one', 'narrow')).time_left, Math.max(0, poolLeft));
  });

  test('is reported as a shortfall of the pool, in the quote and in the rejected submission', async () => {
    const payload = { command: 'true', runtime: 10 / 3600 };
    const response = await otherMember.send('POST', `/quotes/${project}/`, { payload: JSON.stringify(payload) });
    const quote = response.body as Quote;
    assert.deepEqual([quote.accepted, quote.binding_account], [false, 'pool']);
    assert.match(quote.reason ?? '', /the project's pool/);
    assertQuotaExceeded(await otherMember.submit(`/jobs/${project}/`, payload), {
      account: 'pool',
      needed: 10,
      available: Math.max(0, poolLeft),
    });
  });

  test('is covered by a top-up of the reserve', async () => {
    const topUpReserve = { kind: 'top_up', resource: 'time', amount: 10 - poolLeft, reason: 'covers it' };
    await postCreated<Account[]>(fixture.admin, `/admin/grants/${project}/`, topUpReserve);
    assert.equal((await otherMember.quota('hpc_one', 'narrow')).time_left, 10);
    await runJob(otherMember, { command: 'true', runtime: 10 / 3600 }, undefined, project);
    await assertLedgerBalances(fixture.server);
  });
});
