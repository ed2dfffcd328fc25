import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { WorkspaceUsage } from '../../src/domain/jobs/file-limits.ts';
import { inTransaction } from '../../src/store/database/transaction.ts';
import { findProject } from '../../src/store/identity/projects.ts';
import { insertJob } from '../../src/store/jobs/jobs.ts';
import { findAccounts } from '../../src/store/ledger/accounts.ts';
import { placeHold, settle } from '../../src/store/ledger/ledger.ts';
import { findCurrentPeriodId } from '../../src/store/ledger/periods.ts';
import type { LeasedSystemDeps } from '../../src/workers/jobs/system-deps.ts';
import { createUsageCheck } from '../../src/workers/usage-monitor.ts';
import { type AccountingFixture, openAccountingFixture } from '../support/accounting-fixture.ts';
import type { Caller, Job } from '../support/api.ts';
import { jobPath, releaseJob, submitShellLine, waitForGoScript, waitForStage } from '../support/jobs.ts';
import { assertLedgerBalances } from '../support/ledger.ts';
import { notAborted } from '../support/signals.ts';
import { openTestDatabase, publicColumns, storeEnd, type TestDatabase } from '../support/test-database.ts';

const maxFiles = 100;

interface Timeline {
  outcome: string;
  reason: string;
  charged: number;
}

describe('the files of running jobs', () => {
  let fixture: AccountingFixture;
  before(async () => {
    fixture = await openAccountingFixture({
      spaceKb: 1000,
      adjust: (config) => {
        Object.assign(config, { submissions: { maxEntries: 50 } });
        for (const [name, system] of Object.entries(config.systems)) {
          // Jobs of the other system are measured at their end only.
          system.measureIntervalSeconds = name === 'hpc_one' ? 0.1 : 600;
          system.limits.files = maxFiles;
          system.engine.cores = 4;
        }
      },
    });
  });
  after(() => fixture.dispose());

  const submit = async (me: Caller, line: string): Promise<Job> =>
    (await submitShellLine(me, '/jobs/hpc_one/', line)).body;
  const endOf = async (me: Caller, job: Job): Promise<Timeline> => {
    await me.waitUntilFinished(job);
    const [row] = await fixture.query<Timeline>(
      'select outcome, jobs.reason, resolutions.time_seconds as charged from jobs join holds on holds.job = jobs.id ' +
        'join resolutions on hold_id = holds.id where job_id = ?',
      job.job_id,
    );
    assert.ok(row);
    return row;
  };

  test('a job whose files take more than the quota has left is ended, and pays for its time; others go on', async () => {
    const me = await fixture.user('421');
    const small = await submit(me, `head -c 500000 /dev/zero > data; ${waitForGoScript}`);
    await waitForStage(me, small, 'RUNNING');
    const large = await submit(me, 'truncate -s 20M big; sleep 600');
    const end = await endOf(me, large);
    assert.equal(end.outcome, 'output_exceeded');
    assert.equal(end.reason, 'its files took more space than the quota has left');
    assert.ok(end.charged > 0);
    assert.equal((await me.send('DELETE', jobPath(large))).status, 200);
    releaseJob(fixture.server, small);
    assert.equal((await endOf(me, small)).outcome, 'succeeded');
  });

  test('a job that creates too many files is ended', async () => {
    const me = await fixture.user('422');
    const end = await endOf(me, await submit(me, `for i in $(seq ${2 * maxFiles}); do : > f$i; done; sleep 600`));
    assert.equal(end.outcome, 'output_exceeded');
    assert.equal(end.reason, 'it created more files and folders than allowed');
  });

  test('a job that has left too many files has failed; its folders cannot be listed', async () => {
    const me = await fixture.user('423');
    const line = `mkdir d; for i in $(seq ${maxFiles}); do ln -s x d/l$i; done; echo one > file`;
    const { body: job } = await submitShellLine(me, '/jobs/hpc_two/', line);
    const { outcome, reason } = await endOf(me, job);
    assert.equal(outcome, 'output_exceeded');
    assert.match(reason, /^it left 10\d files and folders, and the limit is 100 /);
    const filesPath = jobPath(job).replace('/jobs/', '/files/');
    const listed = await me.get<{ code: string }>(filesPath);
    assert.deepEqual([listed.status, listed.body.code], [409, 'too_many_files']);
    const single = await (await fixture.uncheckedUser('423')).get(`${filesPath}file`);
    assert.deepEqual([single.status, single.text], [200, 'one\n']);
  });

  test('a job that has left very many files is not counted to the last of them', async () => {
    const me = await fixture.user('424');
    const line = `mkdir d; cd d; for i in $(seq ${maxFiles * 15}); do : > $i; done`;
    const { outcome, reason } = await endOf(me, (await submitShellLine(me, '/jobs/hpc_two/', line)).body);
    assert.equal(outcome, 'output_exceeded');
    assert.match(reason, new RegExp(`^it left ${10 * maxFiles + 1} files and folders`));
  });

  test('the ledger balances', async () => {
    await assertLedgerBalances(fixture.server);
  });
});

describe('a measurement of running jobs', () => {
  const MB = 1_000_000;
  let database: TestDatabase;
  beforeEach(async () => {
    database = await openTestDatabase(['1'], 1000, 100_000);
  });
  afterEach(() => database.close());

  /** Inserts a running job that holds no space, and returns its id. */
  async function insertRunning(jobId: string, owner: string): Promise<number> {
    const { db } = database;
    const project = await findProject(db, 'sys', 'proj');
    assert.ok(project);
    const accounts = await findAccounts(db, project.id, (await findCurrentPeriodId(db, project.id, 2)) ?? 0, owner);
    assert.ok(accounts);
    const command = { kind: 'line', line: 'true' } as const;
    const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
    return await inTransaction(db, async (tx) => {
      const job = { jobId, owner, project, request, units: 1, input: null, acceptedAt: 2 };
      const { id } = await insertJob(tx, job, publicColumns('RUNNING'), {});
      const note = { actor: owner, reason: 'test', at: 2 };
      await placeHold(tx, { id }, accounts, { timeSeconds: 1, spaceBytes: 0 }, note);
      await tx.updateTable('jobs').set({ state: 'running' }).where('id', '=', id).execute();
      return id;
    });
  }

  const end = (id: number, spaceBytes: number) =>
    inTransaction(database.db, async (tx) => {
      await storeEnd(tx, id);
      const used = { kind: 'settled', timeSeconds: 1, spaceBytes, rule: 'test' } as const;
      await settle(tx, { id }, used, { actor: 'bursar', at: 3 });
    });

  function createDeps(measure: (jobIds: readonly string[]) => Promise<Record<string, number>>): LeasedSystemDeps {
    const { db } = database;
    const workspaces = {
      measure: async (jobIds: readonly string[]) => {
        const usages = Object.entries(await measure(jobIds));
        return new Map(usages.map(([jobId, bytes]): [string, WorkspaceUsage] => [jobId, { bytes, entries: 1 }]));
      },
    };
    const lease = { transaction: (work: Parameters<typeof inTransaction>[1]) => inTransaction(db, work) };
    const system = { name: 'sys', limits: { files: 10 } };
    const log = { warn: () => undefined };
    return { db, lease, system, workspaces, now: () => 4, log } as unknown as LeasedSystemDeps;
  }

  const listCancelled = async () =>
    await database.db
      .selectFrom('jobs')
      .select(['jobId', 'cancelRequestedBy'])
      .where('cancelRequestedBy', 'is not', null)
      .execute();

  test('does not count the files of a job twice that ends meanwhile', async () => {
    let ending = 0;
    const deps = createDeps(async () => {
      await end(ending, 38 * MB);
      return { ENDING: 38 * MB, OTHER: 60 * MB };
    });
    const cancelExceeding = createUsageCheck(deps);
    await cancelExceeding(notAborted);
    ending = await insertRunning('ENDING', '1');
    await insertRunning('OTHER', '1');
    await cancelExceeding(notAborted);
    assert.deepEqual(await listCancelled(), []);
  });

  test('cancels the job that overruns the quota, and neither then nor after its end another one', async () => {
    let bytes = { FITTING: 50 * MB, OVERRUNNING: 20 * MB };
    const cancelExceeding = createUsageCheck(createDeps(async () => bytes));
    await cancelExceeding(notAborted);
    await insertRunning('FITTING', '1');
    const overrunning = await insertRunning('OVERRUNNING', '1');
    await cancelExceeding(notAborted);
    assert.deepEqual(await listCancelled(), []);
    bytes = { FITTING: 50 * MB, OVERRUNNING: 500 * MB };
    assert.equal(await cancelExceeding(notAborted), true);
    await end(overrunning, 500 * MB);
    assert.equal(await cancelExceeding(notAborted), false);
    assert.deepEqual(await listCancelled(), [{ jobId: 'OVERRUNNING', cancelRequestedBy: 'space_limit' }]);
  });

  test('takes the files of jobs that were running before the start for files that fitted', async () => {
    await insertRunning('EARLIER', '1');
    let bytes = { EARLIER: 500 * MB };
    const cancelExceeding = createUsageCheck(createDeps(async () => bytes));
    assert.equal(await cancelExceeding(notAborted), false);
    assert.equal(await cancelExceeding(notAborted), false);
    bytes = { EARLIER: 520 * MB };
    assert.equal(await cancelExceeding(notAborted), true);
  });
});
