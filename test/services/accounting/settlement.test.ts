import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  defaultProjectPath,
  openAccountingFixture,
  setShortKillGrace,
} from '../../support/accounting-fixture.ts';
import type { Caller, Job } from '../../support/api.ts';
import { jobPath, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  type Account,
  assertLedgerBalances,
  assertQuotaExceeded,
  assertStatementAddsUp,
  createProject,
  getQuota,
  getSettlement,
  getStatement,
  ignoresTermScript,
  markBegunScript,
  postCreated,
  type Quote,
  runJob,
  submitJob,
  topUp,
  waitUntilBegun,
  withdrawDownTo,
} from '../../support/ledger.ts';
import { createZip } from '../../support/zip.ts';

// Who pays, and how much: what each way of ending does to the time of an account, through real HTTP and real processes.

const granted = 100_000;
let fixture: AccountingFixture;

before(async () => {
  fixture = await openAccountingFixture({
    timeSeconds: granted,
    spaceKb: 1000,
    adjust: (config) => {
      setShortKillGrace(config);
      for (const { engine } of Object.values(config.systems)) {
        engine.cores = 4;
        engine.outputKb = 10;
      }
    },
  });
});
after(async () => {
  await assertLedgerBalances(fixture.admin);
  await fixture.dispose();
});

async function assertReleased(caller: Caller, job: Job, rule: RegExp, project = defaultProjectPath): Promise<void> {
  const { held, settled } = await getSettlement(caller, job, project);
  assert.deepEqual([settled.kind, settled.change, settled.used], ['release', held, 0]);
  assert.match(settled.reason, rule, 'the rule is named in the entry');
}

async function assertPaid(caller: Caller, job: Job, rule: string, units = 1): Promise<number> {
  const { held, settled } = await getSettlement(caller, job);
  assert.deepEqual([settled.kind, settled.reason], ['charge', rule]);
  assert.ok(settled.used >= units && settled.used % units === 0, JSON.stringify(settled));
  assert.equal(settled.change, held - settled.used);
  return settled.used;
}

describe('released in full', () => {
  test('a batch job whose script is not there never ran', async () => {
    const me = await fixture.user('301601');
    const job = await runJob(me, { command: 'sbatch missing.sh', core_number: 2 });
    assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    await assertReleased(me, job, /^never ran: rejected/);
    assert.equal((await getQuota(me)).time_left, granted);
  });

  test('a tool whose entry is not in the zip never ran, and takes no space', async () => {
    const me = await fixture.user('301602');
    const project = 'hpc_two/proj_hpc_two_01';
    const before = (await me.get(`/quotas/${project}/`)).text;
    const zip = await createZip({ 'other.sh': 'x'.repeat(2000) });
    const job = await runJob(me, { tool: 'BASH' }, zip, project);
    assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    await assertReleased(me, job, /^never ran: rejected/, project);
    assert.equal((await me.get(`/quotas/${project}/`)).text, before);
  });

  test('a job that is cancelled before it starts', async () => {
    const me = await fixture.user('301603');
    const inTheWay = await submitJob(me, { command: waitForGoScript, core_number: 4 });
    await waitForStage(me, inTheWay, 'RUNNING');
    const job = await submitJob(me, { command: 'true', core_number: 4 });
    const { body } = await me.send('DELETE', jobPath(job));
    const { stage, failed } = body as Job;
    assert.deepEqual([stage, failed], ['CANCELED', false]);
    await assertReleased(me, job, /^never ran: cancelled$/);
    releaseJob(fixture.server, inTheWay);
    await me.waitUntilFinished(inTheWay);
  });

  for (const [signal, what, rule] of [
    ['SIGKILL', 'that the system lost', /lost by the system/],
    ['SIGTERM', 'whose node failed', /node failure/],
  ] as const) {
    test(`a job ${what}, though it was running`, async () => {
      const me = await fixture.user('301604');
      const before = (await getQuota(me)).time_left;
      const job = await submitJob(me, { command: waitForGoScript });
      await waitForStage(me, job, 'RUNNING');
      const record = join(fixture.server.data, 'engines', 'hpc_one', job.job_id, 'start.json');
      process.kill(JSON.parse(readFileSync(record, 'utf8')).supervisor.pid, signal);
      const ended = await me.waitUntilFinished(job);
      assert.deepEqual([ended.stage, ended.failed], ['FAILED', true]);
      await assertReleased(me, job, rule);
      assert.equal((await getQuota(me)).time_left, before);
    });
  }
});

describe('pays for what it used', () => {
  test('a job that is cancelled while it runs', async () => {
    const me = await fixture.user('301611');
    const job = await submitJob(me, { command: markBegunScript, core_number: 3 });
    await waitUntilBegun(fixture, job);
    await waitForStage(me, job, 'RUNNING');
    await me.send('DELETE', jobPath(job));
    const { stage, failed } = await me.waitUntilFinished(job);
    assert.deepEqual([stage, failed], ['CANCELED', false]);
    const used = await assertPaid(me, job, 'used: cancelled', 3);
    assert.equal((await getQuota(me)).time_left, granted - used);
  });

  test('a job that fails by itself', async () => {
    const me = await fixture.user('301612');
    const job = await runJob(me, { command: 'exit 7', node_number: 2 });
    assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    const used = await assertPaid(me, job, 'used: failed', 2);
    assert.equal((await getQuota(me)).time_left, granted - used);
  });

  test('a job that writes more than it may', async () => {
    const me = await fixture.user('301613');
    const job = await runJob(me, { command: 'head -c 20000 /dev/zero' });
    assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    await assertPaid(me, job, 'used: output_exceeded');
  });

  test('a job that reaches its time limit: that long, for each core', async () => {
    const me = await fixture.user('301614');
    const job = await runJob(me, { command: 'sleep 600', core_number: 2, runtime: 1 / 3600 });
    assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
    const used = await assertPaid(me, job, 'used: timed_out', 2);
    assert.equal((await getQuota(me)).time_left, granted - used);
  });

  test('a charge has the elapsed time that the engine measured', async () => {
    const me = await fixture.user('301615');
    const job = await runJob(me, { command: 'true', core_number: 4 });
    const [row] = await fixture.query<{ elapsed_seconds: number }>(
      'select elapsed_seconds from jobs where job_id = ?',
      job.job_id,
    );
    assert.equal(await assertPaid(me, job, 'used: succeeded', 4), 4 * (row?.elapsed_seconds ?? Number.NaN));
  });
});

describe('an overrun', () => {
  const user = '301621';
  let me: Caller;
  let job: Job;
  let overrun: number;

  before(async () => {
    me = await fixture.user(user);
    await withdrawDownTo(fixture.admin, user, { time: 1 });
    job = await runJob(me, { command: ignoresTermScript, runtime: 1 / 3600 });
  });

  test('is recorded: the job is charged what it used, beyond its hold and beyond the quota', async () => {
    assert.equal(job.stage, 'FAILED');
    const { held, settled } = await getSettlement(me, job);
    assert.equal(held, 1);
    assert.ok(settled.used > 1, JSON.stringify(settled));
    overrun = settled.used - 1;
    assert.equal(settled.balance, -overrun);
    const { time } = await getStatement(me);
    assert.equal(time.closing_balance, -overrun);
  });

  test('shows as nothing left, never as less than nothing', async () => {
    assert.equal((await getQuota(me)).time_left, 0);
    await assertStatementAddsUp(me);
  });

  test('blocks new jobs, and says so in quotes too', async () => {
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

  test('blocks until a top-up covers it, to the second', async () => {
    const payload = { command: 'true', runtime: 1 / 3600 };
    const [, cap] = await topUp(fixture.admin, user, overrun);
    assert.equal(cap?.available, 0);
    assertQuotaExceeded(await me.submit(`/jobs/${defaultProjectPath}/`, payload), { available: 0 });
    await topUp(fixture.admin, user, 1);
    assert.equal((await getQuota(me)).time_left, 1);
    await runJob(me, payload);
    await assertStatementAddsUp(me);
  });

  test('can be covered by a refund of the job itself as well', async () => {
    const { settled } = await getSettlement(me, job);
    const reason = 'the node was slow';
    const refund = { job_id: job.job_id, amount: settled.used, reason };
    await postCreated<Account[]>(fixture.admin, `/admin/grants/${defaultProjectPath}/refunds/`, refund);
    assert.ok((await getQuota(me)).time_left > 0);
    await assertStatementAddsUp(me);
    await assertLedgerBalances(fixture.admin);
  });
});

describe('an overrun that empties the pool', () => {
  let project: string;
  let careful: Caller;
  let poolLeft: number;

  before(async () => {
    const spender = await fixture.user('301631');
    careful = await fixture.user('301632');
    project = await createProject(fixture.admin, 'narrow', ['301631', '301632'], { timeSeconds: 10 });
    await runJob(spender, { command: ignoresTermScript, core_number: 10, runtime: 1 / 3600 }, undefined, project);
    const shrink = { kind: 'top_up', resource: 'time', amount: 5, reason: 'a little more for all' };
    const [pool] = await postCreated<Account[]>(fixture.admin, `/admin/grants/${project}/`, shrink);
    poolLeft = pool?.available ?? Number.NaN;
  });

  test('leaves the others no more than the pool has', async () => {
    assert.ok(poolLeft < 10, String(poolLeft));
    assert.equal((await careful.quota('hpc_one', 'narrow')).time_left, Math.max(0, poolLeft));
  });

  test('makes the pool the account that binds, in the quote and in the refusal', async () => {
    const payload = { command: 'true', runtime: 10 / 3600 };
    const answer = await careful.send('POST', `/quotes/${project}/`, { payload: JSON.stringify(payload) });
    const quote = answer.body as Quote;
    assert.deepEqual([quote.accepted, quote.binding_account], [false, 'pool']);
    assert.match(quote.reason ?? '', /the project's pool/);
    assertQuotaExceeded(await careful.submit(`/jobs/${project}/`, payload), {
      account: 'pool',
      needed: 10,
      available: Math.max(0, poolLeft),
    });
  });

  test('ends when the reserve of the project grows', async () => {
    const grow = { kind: 'top_up', resource: 'time', amount: 10 - poolLeft, reason: 'covers it' };
    await postCreated<Account[]>(fixture.admin, `/admin/grants/${project}/`, grow);
    assert.equal((await careful.quota('hpc_one', 'narrow')).time_left, 10);
    await runJob(careful, { command: 'true', runtime: 10 / 3600 }, undefined, project);
    await assertLedgerBalances(fixture.admin);
  });
});
