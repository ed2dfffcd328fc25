import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  defaultProject,
  defaultProjectPath,
  openAccountingFixture,
  setShortKillGrace,
} from '../../support/accounting-fixture.ts';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import { cancelJob, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertQuotaExceeded,
  assertStatementAddsUp,
  createProject,
  listJobMovements,
  postAsAdmin,
  postCreated,
  runOverrun,
  topUp,
  withdrawDownTo,
} from '../../support/ledger.ts';
import { createZip } from '../../support/zip.ts';

// Concurrent requests through real HTTP that exceed the quota together.

const granted = 3600;
let fixture: AccountingFixture;

/** PostgreSQL: a hundred requests wait for ten connections, on a busy machine longer than a request usually may. */
const tuning = { connectTimeoutMs: 600_000 };

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 10, adjust: setShortKillGrace, tuning });
});
after(() => fixture.dispose());

const runConcurrently = <T>(count: number, action: (index: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, index) => action(index)));

function countStatuses(responses: ApiResponse[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

async function assertBalancedEverywhere(): Promise<void> {
  await assertLedgerBalances(fixture.server);
  const { code, stdout, stderr } = await fixture.bursar('ledger', 'verify');
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /^The ledger balances: \d+ accounts, \d+ entries\.\n$/);
}

describe('a hundred concurrent submissions, with quota for exactly one', () => {
  let me: Caller;
  let responses: ApiResponse<Job>[];

  before(async () => {
    me = await fixture.user('301501');
    responses = await runConcurrently(100, () =>
      me.submit(`/jobs/${defaultProjectPath}/`, { command: waitForGoScript, runtime: 1 }),
    );
  });

  test('one is accepted, and 99 are rejected with quota_exceeded', () => {
    assert.deepEqual(countStatuses(responses), { 201: 1, 403: 99 });
    for (const response of responses.filter(({ status }) => status === 403)) {
      assertQuotaExceeded(response, {
        resource: 'time',
        unit: 'seconds',
        account: 'cap',
        needed: granted,
        available: 0,
      });
    }
  });

  test('each rejection shows a longest runtime of zero, in line with the available time of zero', () => {
    for (const response of responses.filter(({ status }) => status === 403)) {
      const problem = assertQuotaExceeded(response, { available: 0, longest_runtime: 0 });
      assert.doesNotMatch(problem.detail, /would fit/);
    }
  });

  test('one job exists and holds the whole quota', async () => {
    const { body: jobs } = await me.get<Job[]>('/jobs/');
    assert.equal(jobs.length, 1);
    assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, 0);
    const { time } = await assertStatementAddsUp(me);
    assert.deepEqual(
      time.movements.map(({ kind, change }) => [kind, change]),
      [
        ['grant', granted],
        ['reserve', -granted],
      ],
    );
  });

  test('the ledger balances, by HTTP and by the command line', assertBalancedEverywhere);

  test('the unused time is available again when the job has ended', async () => {
    const [job] = (await me.get<Job[]>('/jobs/')).body;
    assert.ok(job);
    await waitForStage(me, job, 'RUNNING');
    releaseJob(fixture.server, job);
    assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
    const [, , charged] = await listJobMovements(me, job);
    assert.equal(
      (await me.quota(defaultProject.hpc, defaultProject.project)).time_left,
      granted - (charged?.used ?? Number.NaN),
    );
    await assertLedgerBalances(fixture.server);
  });
});

test('accepts one of many concurrent submissions by members whose pool is enough for one', async () => {
  const members = ['301511', '301512', '301513', '301514', '301515'];
  const callers = await Promise.all(members.map((member) => fixture.user(member)));
  const overrunner = await fixture.user('301510');
  const project = await createProject(fixture.admin, 'shared', ['301510', ...members], { timeSeconds: 600 });
  // An overrun of one member is missing in the pool: it is more than all other members have.
  await runOverrun(fixture, overrunner, { runtime: 600 / 3600 }, project);
  const reserveTopUp = (amount: number) => ({ kind: 'top_up', resource: 'time', amount, reason: 'for one job' });
  const [pool] = await postCreated(fixture.admin, `/admin/grants/${project}/`, reserveTopUp(1));
  assert.ok(pool && pool.available < 0, JSON.stringify(pool));
  await postCreated(fixture.admin, `/admin/grants/${project}/`, reserveTopUp(600 - pool.available));

  const responses = await runConcurrently(50, async (index) => {
    const caller = callers[index % callers.length];
    assert.ok(caller);
    return await caller.submit(`/jobs/${project}/`, { command: waitForGoScript, runtime: 600 / 3600 });
  });
  assert.deepEqual(countStatuses(responses), { 201: 1, 403: 49 });
  const accepted = responses.find(({ status }) => status === 201);
  assert.ok(accepted);
  for (const response of responses.filter(({ status }) => status === 403)) {
    assertQuotaExceeded(response, { needed: 600, available: 0 });
  }
  for (const [index, caller] of callers.entries()) {
    assert.equal((await caller.quota('hpc_one', 'shared')).time_left, 0);
    const rejected = await caller.submit(`/jobs/${project}/`, { command: 'true', runtime: 1 / 3600 });
    // The cap of the owner of the job is empty as well.
    assertQuotaExceeded(rejected, { account: members[index] === accepted.body.owner ? 'cap' : 'pool', available: 0 });
  }
  const caller = await fixture.user(accepted.body.owner);
  await cancelJob(caller, accepted.body);
  await assertLedgerBalances(fixture.server);
});

test('accepts one of many concurrent submissions if the space is enough for one zip', async () => {
  const me = await fixture.user('301520');
  await topUp(fixture.admin, '301520', 1_000_000);
  const zip = await createZip({ 'data.bin': 'x'.repeat(6000) });
  const responses = await runConcurrently(30, () =>
    me.submit(`/jobs/${defaultProjectPath}/`, { command: waitForGoScript, runtime: 0.1 }, zip),
  );
  assert.deepEqual(countStatuses(responses), { 201: 1, 403: 29 });
  for (const response of responses.filter(({ status }) => status === 403)) {
    assertQuotaExceeded(response, { resource: 'space', unit: 'KB', account: 'cap', needed: 6, available: 4 });
  }
  const [job] = (await me.get<Job[]>('/jobs/')).body;
  assert.ok(job);
  assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).space_left, 4);
  assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, granted + 1_000_000 - 360);
  await cancelJob(me, job);
  await assertLedgerBalances(fixture.server);
});

test('concurrent top-ups with one idempotency key are one top-up with one response', async () => {
  const me = await fixture.user('301530');
  const body = { kind: 'top_up', resource: 'time', amount: 7, reason: 'sent repeatedly' };
  const responses = await runConcurrently(30, () =>
    postAsAdmin(fixture.admin, `/admin/grants/${defaultProjectPath}/members/301530/`, body, 'one-and-the-same'),
  );
  assert.deepEqual(countStatuses(responses), { 201: 30 });
  assert.equal(new Set(responses.map(({ text }) => text)).size, 1);
  assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, granted + 7);
});

test('concurrent withdrawals take no more than is available', async () => {
  const me = await fixture.user('301531');
  await withdrawDownTo(fixture.admin, '301531', { time: 100 });
  const body = { kind: 'withdraw', resource: 'time', amount: 30, reason: 'taken back' };
  const responses = await runConcurrently(20, () =>
    postAsAdmin(fixture.admin, `/admin/grants/${defaultProjectPath}/members/301531/`, body),
  );
  assert.deepEqual(countStatuses(responses), { 201: 3, 409: 17 });
  assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, 10);
  await assertStatementAddsUp(me);
});

test('concurrent submissions and command-line grants never fail because the database is locked', async () => {
  const me = await fixture.user('301532');
  const submissions = runConcurrently(16, async (index) => {
    const caller = index % 2 === 0 ? me : fixture.admin;
    return await caller.submit(`/jobs/${defaultProjectPath}/`, {
      command: 'true',
      runtime: 1 / 3600,
      title: `job ${index}`,
    });
  });
  const grants = runConcurrently(3, (index) =>
    fixture.bursar(
      'grant',
      defaultProjectPath,
      '--user',
      '301532',
      '--time',
      String(index + 1),
      '--reason',
      'while a server runs',
    ),
  );
  for (const { code, stderr } of await grants) assert.equal(code, 0, stderr);
  assert.deepEqual(countStatuses(await submissions), { 201: 16 });
  for (const job of (await me.get<Job[]>('/jobs/')).body) await me.waitUntilFinished(job);
  for (const job of (await fixture.admin.get<Job[]>('/jobs/')).body) await fixture.admin.waitUntilFinished(job);
  await assertStatementAddsUp(me);
  await assertBalancedEverywhere();
});
