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
import { jobPath, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertQuotaExceeded,
  assertStatementAddsUp,
  createProject,
  ignoresTermScript,
  listJobMovements,
  postAsAdmin,
  postCreated,
  runJob,
  topUp,
  withdrawDownTo,
} from '../../support/ledger.ts';
import { createZip } from '../../support/zip.ts';

// Many requests at the same time, through real HTTP, where there is enough for one.

const granted = 3600;
let fixture: AccountingFixture;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 10, adjust: setShortKillGrace });
});
after(() => fixture.dispose());

const times = <T>(count: number, one: (index: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, index) => one(index)));

function countStatuses(answers: ApiResponse[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

async function assertBooks(): Promise<void> {
  await assertLedgerBalances(fixture.admin);
  const { code, stdout, stderr } = await fixture.bursar('ledger', 'verify');
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /^The ledger balances: \d+ accounts, \d+ entries\.\n$/);
}

describe('a hundred submissions at the same time, with quota for exactly one', () => {
  let me: Caller;
  let answers: ApiResponse<Job>[];

  before(async () => {
    me = await fixture.user('301501');
    answers = await times(100, () =>
      me.submit(`/jobs/${defaultProjectPath}/`, { command: waitForGoScript, runtime: 1 }),
    );
  });

  test('one is accepted, and ninety-nine are refused for lack of quota', () => {
    assert.deepEqual(countStatuses(answers), { 201: 1, 403: 99 });
    for (const answer of answers.filter(({ status }) => status === 403)) {
      assertQuotaExceeded(answer, { resource: 'time', unit: 'seconds', account: 'cap', needed: granted, available: 0 });
    }
  });

  test('each refusal tells the longest runtime that fits beside what it says is available: none', () => {
    for (const answer of answers.filter(({ status }) => status === 403)) {
      const problem = assertQuotaExceeded(answer, { available: 0, longest_runtime: 0 });
      assert.doesNotMatch(problem.detail, /would fit/);
    }
  });

  test('one job is there, and everything is held by it', async () => {
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

  test('the books balance, by the path and by the command line', assertBooks);

  test('and when it has ended, all that it did not use is there again', async () => {
    const [job] = (await me.get<Job[]>('/jobs/')).body;
    assert.ok(job);
    await waitForStage(me, job, 'RUNNING');
    releaseJob(fixture.server, job);
    assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
    const [, charged] = await listJobMovements(me, job);
    assert.equal(
      (await me.quota(defaultProject.hpc, defaultProject.project)).time_left,
      granted - (charged?.used ?? Number.NaN),
    );
    await assertLedgerBalances(fixture.admin);
  });
});

test('submissions at the same time by members whose pool has enough for one only: one is accepted', async () => {
  const members = ['301511', '301512', '301513', '301514', '301515'];
  const callers = await Promise.all(members.map((member) => fixture.user(member)));
  const spender = await fixture.user('301510');
  const project = await createProject(fixture.admin, 'shared', ['301510', ...members], { timeSeconds: 600 });
  // What one member overruns is missing in the pool: two seconds of it are more than all have together.
  const overrun = { command: ignoresTermScript, node_number: 64, core_number: 128, runtime: 1 / 3600 };
  await topUp(fixture.admin, '301510', 64 * 128 - 600, { project });
  await runJob(spender, overrun, undefined, project);
  const grow = (amount: number) => ({ kind: 'top_up', resource: 'time', amount, reason: 'for one job' });
  const [pool] = await postCreated(fixture.admin, `/admin/grants/${project}/`, grow(1));
  assert.ok(pool && pool.available < 0, JSON.stringify(pool));
  await postCreated(fixture.admin, `/admin/grants/${project}/`, grow(600 - pool.available));

  const answers = await times(50, async (index) => {
    const caller = callers[index % callers.length];
    assert.ok(caller);
    return await caller.submit(`/jobs/${project}/`, { command: waitForGoScript, runtime: 600 / 3600 });
  });
  assert.deepEqual(countStatuses(answers), { 201: 1, 403: 49 });
  const accepted = answers.find(({ status }) => status === 201);
  assert.ok(accepted);
  for (const answer of answers.filter(({ status }) => status === 403)) {
    assertQuotaExceeded(answer, { needed: 600, available: 0 });
  }
  for (const [index, caller] of callers.entries()) {
    assert.equal((await caller.quota('hpc_one', 'shared')).time_left, 0);
    const refused = await caller.submit(`/jobs/${project}/`, { command: 'true', runtime: 1 / 3600 });
    // For the owner of the job the own cap is empty as well.
    assertQuotaExceeded(refused, { account: members[index] === accepted.body.owner ? 'cap' : 'pool', available: 0 });
  }
  const caller = await fixture.user(accepted.body.owner);
  await caller.send('DELETE', jobPath(accepted.body));
  await caller.waitUntilFinished(accepted.body);
  await assertLedgerBalances(fixture.admin);
});

test('submissions at the same time with space for one zip only: one is accepted, and no zip is left of the rest', async () => {
  const me = await fixture.user('301520');
  await topUp(fixture.admin, '301520', 1_000_000);
  const zip = await createZip({ 'data.bin': 'x'.repeat(6000) });
  const answers = await times(30, () =>
    me.submit(`/jobs/${defaultProjectPath}/`, { command: waitForGoScript, runtime: 0.1 }, zip),
  );
  assert.deepEqual(countStatuses(answers), { 201: 1, 403: 29 });
  for (const answer of answers.filter(({ status }) => status === 403)) {
    assertQuotaExceeded(answer, { resource: 'space', unit: 'KB', account: 'cap', needed: 6, available: 4 });
  }
  const [job] = (await me.get<Job[]>('/jobs/')).body;
  assert.ok(job);
  assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).space_left, 4);
  assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, granted + 1_000_000 - 360);
  await me.send('DELETE', jobPath(job));
  await me.waitUntilFinished(job);
  await assertLedgerBalances(fixture.admin);
});

test('top-ups at the same time under one key are one top-up, and all get its answer', async () => {
  const me = await fixture.user('301530');
  const body = { kind: 'top_up', resource: 'time', amount: 7, reason: 'asked for twice' };
  const answers = await times(30, () =>
    postAsAdmin(fixture.admin, `/admin/grants/${defaultProjectPath}/301530/`, body, 'one-and-the-same'),
  );
  assert.deepEqual(countStatuses(answers), { 201: 30 });
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, granted + 7);
});

test('withdrawals at the same time take no more than there is', async () => {
  const me = await fixture.user('301531');
  await withdrawDownTo(fixture.admin, '301531', { time: 100 });
  const body = { kind: 'withdraw', resource: 'time', amount: 30, reason: 'taken back' };
  const answers = await times(20, () =>
    postAsAdmin(fixture.admin, `/admin/grants/${defaultProjectPath}/301531/`, body),
  );
  assert.deepEqual(countStatuses(answers), { 201: 3, 409: 17 });
  assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, 10);
  await assertStatementAddsUp(me);
});

test('submissions and the command line at the same time: nobody is told that the books are locked', async () => {
  const me = await fixture.user('301532');
  const submissions = times(16, async (index) => {
    const caller = index % 2 === 0 ? me : fixture.admin;
    return await caller.submit(`/jobs/${defaultProjectPath}/`, {
      command: 'true',
      runtime: 1 / 3600,
      title: `job ${index}`,
    });
  });
  const grants = times(3, (index) =>
    fixture.bursar(
      'grant',
      defaultProjectPath,
      '--user',
      '301532',
      '--time',
      String(index + 1),
      '--reason',
      'beside a server',
    ),
  );
  for (const { code, stderr } of await grants) assert.equal(code, 0, stderr);
  assert.deepEqual(countStatuses(await submissions), { 201: 16 });
  for (const job of (await me.get<Job[]>('/jobs/')).body) await me.waitUntilFinished(job);
  for (const job of (await fixture.admin.get<Job[]>('/jobs/')).body) await fixture.admin.waitUntilFinished(job);
  await assertStatementAddsUp(me);
  await assertBooks();
});
