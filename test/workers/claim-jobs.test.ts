import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { BursarError } from '../../src/domain/errors.ts';
import type { Tx } from '../../src/store/database/handle.ts';
import { inTransaction } from '../../src/store/database/transaction.ts';
import { findProject } from '../../src/store/identity/projects.ts';
import { postponeJob, requestCancellation } from '../../src/store/jobs/job-queue.ts';
import { insertJob, type JobRecord } from '../../src/store/jobs/jobs.ts';
import { createJobClaims, fullQueueRetryMs } from '../../src/workers/jobs/claim-jobs.ts';
import { createDispatchFailures } from '../../src/workers/jobs/dispatch-failures.ts';
import type { LeasedSystemDeps } from '../../src/workers/jobs/system-deps.ts';
import { recordStatements } from '../support/statements.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../support/test-database.ts';

const acceptedAt = 1000;

describe('the dispatcher claims jobs', () => {
  let database: TestDatabase;
  let now: number;
  beforeEach(async () => {
    database = await openTestDatabase(['1', '2', '3'], 10_000, 1000);
    now = 5000;
  });
  afterEach(() => database.close());

  const createClaims = (maxJobsPerUser = 100, deps: Partial<LeasedSystemDeps> = {}) =>
    createJobClaims({
      db: database.db,
      lease: { transaction: (work) => inTransaction(database.db, work) },
      system: { name: 'sys' },
      maxJobsPerUser,
      now: () => now,
      ...deps,
    } as LeasedSystemDeps);

  /** Inserts jobs in this order. The first character of a name is the owner. */
  async function insertJobs(...names: string[]): Promise<Map<string, number>> {
    const project = await findProject(database.db, 'sys', 'proj');
    assert.ok(project);
    const command = { kind: 'line', line: 'true' } as const;
    const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
    const ids = new Map<string, number>();
    for (const jobId of names) {
      const job = { jobId, owner: jobId.charAt(0), project, request, units: 1, input: null, acceptedAt };
      const { id } = await inTransaction(database.db, (tx) => insertJob(tx, job, publicColumns('QUEUED'), {}));
      ids.set(jobId, id);
    }
    return ids;
  }

  const setState = (jobs: readonly JobRecord[], state: 'queued' | 'ended') =>
    database.db
      .updateTable('jobs')
      .set({ state })
      .where(
        'id',
        'in',
        jobs.map(({ id }) => id),
      )
      .execute();
  const names = (jobs: readonly JobRecord[]) => jobs.map(({ jobId }) => jobId).join(' ');

  /** Claims one job after the other, as when each submission ends before the next claim. */
  async function claimOneByOne(claims: ReturnType<typeof createClaims>, count: number): Promise<string> {
    const claimed: JobRecord[] = [];
    for (let n = 0; n < count; n++) {
      const { jobs } = await claims.claim(1, []);
      if (jobs.length > 0) await setState(jobs, 'queued');
      claimed.push(...jobs);
    }
    return names(claimed);
  }

  test('of one user after the other, and of each user in the order of submission', async () => {
    await insertJobs('1a', '1b', '1c', '1d', '2a', '2b', '3a');
    assert.equal(await claimOneByOne(createClaims(), 8), '1a 2a 3a 1b 2b 1c 1d');
  });

  test('in turns even if it claims several at once, or one while others are in progress', async () => {
    await insertJobs('1a', '1b', '1c', '1d', '2a', '2b', '3a');
    const claims = createClaims();
    const { jobs } = await claims.claim(4, []);
    assert.equal(names(jobs), '1a 2a 3a 1b');
    assert.equal(names((await claims.claim(1, jobs)).jobs), '2b');
  });

  test('of one user only so many at the same time that another user can have a turn at once', async () => {
    const jobNames = [...'abcdefghijklmno'].map((letter) => `1${letter}`);
    const ids = await insertJobs(...jobNames);
    let transactions = 0;
    const lease: Pick<LeasedSystemDeps['lease'], 'transaction'> = {
      transaction(work) {
        transactions += 1;
        return inTransaction(database.db, work);
      },
    };
    const claims = createClaims(100, { lease } as LeasedSystemDeps);
    const { jobs } = await claims.claim(16, []);
    assert.equal(names(jobs), jobNames.slice(0, 12).join(' '));
    assert.equal(names((await claims.claim(2, jobs)).jobs), '');
    assert.equal(transactions, 1, 'a user who must wait costs no transaction');
    await insertJobs('2a');
    await inTransaction(database.db, (tx) => requestCancellation(tx, ids.get('1o') ?? 0, { by: '1', at: now }));
    assert.equal(names((await claims.claim(2, jobs)).jobs), '2a 1o');
  });

  test('that wait for their next try when they are due, without delaying others', async () => {
    await insertJobs('1a', '2a', '2b');
    const claims = createClaims();
    const { jobs } = await claims.claim(1, []);
    const [job] = jobs;
    assert.ok(job);
    const retry = { dueAt: now + 700, hasReachedEngine: false };
    await inTransaction(database.db, (tx) => postponeJob(tx, job, retry));
    const later = await claims.claim(8, []);
    assert.deepEqual([names(later.jobs), later.nextAt], ['2a 2b', now + 700]);
    await setState(later.jobs, 'queued');
    assert.deepEqual(await claims.claim(8, []), { jobs: [], nextAt: now + 700 });
    now += 700;
    assert.equal(names((await claims.claim(8, [])).jobs), '1a');
  });

  test('of a user only while the engine has less than the allowed number, except cancelled jobs', async () => {
    const ids = await insertJobs('1a', '1b', '1c', '1d', '2a');
    const claims = createClaims(2);
    const { jobs, nextAt } = await claims.claim(8, []);
    assert.equal(names(jobs), '1a 2a 1b');
    assert.ok(nextAt !== undefined && nextAt > now && nextAt <= now + 1000, 'the user is counted again soon');
    await setState(jobs, 'queued');
    assert.deepEqual((await claims.claim(8, [])).jobs, []);
    await inTransaction(database.db, (tx) => requestCancellation(tx, ids.get('1d') ?? 0, { by: '1', at: now }));
    const cancelled = await claims.claim(8, []);
    assert.equal(names(cancelled.jobs), '1d');
    await setState([...cancelled.jobs, ...jobs.slice(0, 1)], 'ended');
    assert.equal(names((await claims.claim(8, [])).jobs), '1c');
  });

  const cancel = (id = 0) => inTransaction(database.db, (tx) => requestCancellation(tx, id, { by: '1', at: now }));

  test('that were cancelled at once, although the queue is full for their user', async () => {
    const ids = await insertJobs('1a', '1b', '1c');
    const claims = createClaims();
    const { jobs } = await claims.claim(1, []);
    claims.holdBack('1');
    assert.deepEqual((await claims.claim(8, jobs)).jobs, []);
    await cancel(ids.get('1c'));
    const cancelled = await claims.claim(8, jobs);
    assert.equal(names(cancelled.jobs), '1c');
    assert.deepEqual((await claims.claim(8, [...jobs, ...cancelled.jobs])).jobs, []);
  });

  test('that were cancelled, and could not be ended at the first try, although their user has enough in the engine', async () => {
    const ids = await insertJobs('1a', '1b');
    const claims = createClaims(1);
    await setState((await claims.claim(1, [])).jobs, 'queued');
    await cancel(ids.get('1b'));
    const { jobs } = await claims.claim(8, []);
    const [job] = jobs;
    assert.ok(job);
    await inTransaction(database.db, (tx) => postponeJob(tx, job, { dueAt: now + 700, hasReachedEngine: false }));
    assert.deepEqual((await claims.claim(8, [])).jobs, []);
    now += 700;
    assert.equal(names((await claims.claim(8, [])).jobs), '1b');
  });

  test('of a user for whom the queue was full not earlier because a job was cancelled or rejected', async () => {
    await insertJobs('1a', '1b');
    const claims = createClaims();
    const [job] = (await claims.claim(1, [])).jobs;
    assert.ok(job);
    await setState([job], 'ended');
    const failures = createDispatchFailures({} as LeasedSystemDeps, claims);
    claims.holdBack('1');
    failures.forget(job, false);
    assert.deepEqual((await claims.claim(8, [])).jobs, []);
    failures.forget(job, true);
    assert.equal(names((await claims.claim(8, [])).jobs), '1b');
  });

  test('with as many statements for many users who have enough in the engine as for one', async () => {
    const countStatements = async (...names: string[]) => {
      await insertJobs(...names);
      await setState((await createClaims(1).claim(8, [])).jobs, 'queued');
      const { db, statements } = recordStatements(database.db);
      // A transaction would not be recorded.
      const lease = { transaction: (work) => work(db as Tx) } as LeasedSystemDeps['lease'];
      assert.deepEqual((await createClaims(1, { db, lease }).claim(8, [])).jobs, []);
      return statements.length;
    };
    const forOne = await countStatements('1a', '1b');
    assert.ok(forOne > 1);
    const others = ['2a', '3a', '2b', '3b', '2c', '3c'];
    assert.equal(await countStatements(...others), forOne);
  });

  test('again and again while the queue is full, without using up their tries', async () => {
    await insertJobs('1a');
    const claims = createClaims();
    const deps = {
      lease: { transaction: (work: (tx: Tx) => Promise<void>) => inTransaction(database.db, work) },
      system: { name: 'sys' },
      delayAlarmMs: 600_000,
      now: () => now,
      log: { warn: () => undefined },
    } as unknown as LeasedSystemDeps;
    const failures = createDispatchFailures(deps, claims);
    const tries: (number | undefined)[] = [];
    for (const code of ['queue_full', 'queue_full', 'unavailable', 'queue_full', 'queue_full', 'queue_full'] as const) {
      const [job] = (await claims.claim(8, [])).jobs;
      assert.ok(job);
      tries.push(job.tries);
      await failures.postpone(job, new BursarError(code, '', { transient: true }), true);
      now += 60_000;
    }
    // Of the third try nobody knows whether the engine has the job.
    assert.deepEqual(tries, [1, 1, 1, 2, 2, 2]);
  });

  test('of a user for whom the queue was full after a pause, and again in their order', async () => {
    await insertJobs('1a', '1b', '2a', '2b');
    const claims = createClaims();
    const { jobs } = await claims.claim(1, []);
    const [job] = jobs;
    assert.ok(job);
    await inTransaction(database.db, (tx) => postponeJob(tx, job, { dueAt: job.dueAt, hasReachedEngine: true }));
    claims.holdBack('1');
    const others = await claims.claim(8, []);
    assert.deepEqual([names(others.jobs), others.nextAt], ['2a 2b', now + fullQueueRetryMs]);
    now += fullQueueRetryMs;
    const retried = await claims.claim(8, others.jobs);
    assert.equal(names(retried.jobs), '1a', 'one try shows whether the queue is still full');
    assert.deepEqual((await claims.claim(8, [...retried.jobs, ...others.jobs])).jobs, []);
    await setState(retried.jobs, 'queued');
    claims.resume('1');
    assert.equal(names((await claims.claim(8, others.jobs)).jobs), '1b');
  });
});
