import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { changeGrant, type GrantChange } from '../../../src/services/accounting/grants.ts';
import { openGrantPeriod } from '../../../src/services/accounting/periods.ts';
import { runOnce } from '../../../src/services/idempotency.ts';
import { authenticate } from '../../../src/services/identity/authenticate.ts';
import { enrolUser, syncProjects } from '../../../src/services/identity/enrolment.ts';
import type { Db, Tx } from '../../../src/store/database/handle.ts';
import { inTransaction, runWithoutRetry } from '../../../src/store/database/transaction.ts';
import { insertEvent } from '../../../src/store/events/events.ts';
import { findProject, type ProjectRecord } from '../../../src/store/identity/projects.ts';
import { setExpiry } from '../../../src/store/jobs/job-retention.ts';
import { findJob, insertJob, updateStatus } from '../../../src/store/jobs/jobs.ts';
import { applyMovement } from '../../../src/store/ledger/accounts.ts';
import { reserve, settle } from '../../../src/store/ledger/ledger.ts';
import { findQuotas } from '../../../src/store/ledger/quotas.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { getAccounts } from '../../support/accounts.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../../support/test-database.ts';

// What happens when several want the same at once. On SQLite they queue; on PostgreSQL they meet.

let books: TestDatabase;
let db: Db;
let project: ProjectRecord;

beforeEach(async () => {
  books = await openTestDatabase(['1', '2'], 1000, 500);
  db = books.db;
  const found = await findProject(db, 'sys', 'proj');
  assert.ok(found);
  project = found;
});
afterEach(() => books.close());

const atOnce = <T>(count: number, one: (index: number) => Promise<T>) =>
  Promise.allSettled(Array.from({ length: count }, (_, index) => one(index)));
const succeeded = (results: PromiseSettledResult<unknown>[]) =>
  results.filter(({ status }) => status === 'fulfilled').length;

async function assertBalanced(): Promise<void> {
  assert.deepEqual((await verifyLedger(db)).problems, []);
}

let jobNumber = 0;
async function newJob(owner: string, timeSeconds: number): Promise<{ id: number; attempt: number }> {
  const accounts = await getAccounts(db, project, owner);
  const command = { kind: 'line', line: 'true' } as const;
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, command, tool: null, entry: null };
  return await inTransaction(db, async (tx) => {
    const jobId = `MEET-${jobNumber++}`;
    const job = { jobId, owner, project, request, units: 1, input: null, acceptedAt: 2 };
    const { id } = await insertJob(tx, job, publicColumns('QUEUED'), {});
    const note = { actor: owner, reason: 'test', at: 2 };
    assert.equal(await reserve(tx, { id, attempt: 1 }, accounts, { timeSeconds, spaceBytes: 0 }, note), null);
    return { id, attempt: 1 };
  });
}

const administer = (act: GrantChange) => inTransaction(db, (tx) => changeGrant(tx, project, act, 'admin', 5));

describe('transactions that meet', () => {
  test('two that lock the same accounts in opposite orders both succeed in the end', async () => {
    const [first, second] = [await getAccounts(db, project, '1'), await getAccounts(db, project, '2')];
    const both = [first.timeCap.id, second.timeCap.id];
    const results = await atOnce(6, (index) =>
      inTransaction(db, async (tx) => {
        for (const id of index % 2 === 0 ? both : [...both].reverse()) {
          await applyMovement(tx, id, { granted: 1 });
          await sleep(5);
        }
      }),
    );
    assert.equal(succeeded(results), 6);
    const after = await getAccounts(db, project, '1');
    assert.equal(after.timeCap.granted, first.timeCap.granted + 6);
  });

  test('transfers in both directions lose nothing', async () => {
    const results = await atOnce(20, (index) => {
      const [from, to] = index % 2 === 0 ? ['1', '2'] : ['2', '1'];
      return administer({ kind: 'transfer', from, to, resource: 'time', amount: 10, reason: 'test' });
    });
    assert.equal(succeeded(results), 20);
    assert.equal((await getAccounts(db, project, '1')).timeCap.granted, 1000);
    await assertBalanced();
  });

  test('the reserve of a pool is promised once, however many ask for it', async () => {
    await administer({ kind: 'top_up', user: null, resource: 'time', amount: 100, source: 'new', reason: 'reserve' });
    const ask = { kind: 'top_up', resource: 'time', amount: 40, source: 'pool', reason: 'test' } as const;
    const results = await atOnce(8, (index) => administer({ ...ask, user: index % 2 === 0 ? '1' : '2' }));
    assert.equal(succeeded(results), 2);
    await assertBalanced();
  });

  test('what a job was charged is refunded once, however many refund it', async () => {
    const job = await newJob('1', 100);
    // Another one, so that there is more to be given back than this one was charged.
    for (const each of [job, await newJob('1', 500)]) {
      await inTransaction(db, async (tx) => {
        await tx.updateTable('jobs').set({ state: 'ended' }).where('id', '=', each.id).execute();
        const used = { kind: 'settled', timeSeconds: each === job ? 100 : 500, spaceBytes: 0, rule: 'test' } as const;
        await settle(tx, each, used, { actor: 'bursar', at: 3 });
      });
    }
    const { job_id: jobId } = await db
      .selectFrom('jobs')
      .select('job_id')
      .where('id', '=', job.id)
      .executeTakeFirstOrThrow();
    const results = await atOnce(8, () => administer({ kind: 'refund', jobId, amount: 60, reason: 'test' }));
    assert.equal(succeeded(results), 1);
    await assertBalanced();
  });

  test('a hold is settled once, however many settle it', async () => {
    const job = await newJob('1', 300);
    const used = { kind: 'settled', timeSeconds: 100, spaceBytes: 0, rule: 'test' } as const;
    const results = await atOnce(8, () =>
      inTransaction(db, async (tx) => {
        await tx.updateTable('jobs').set({ state: 'ended' }).where('id', '=', job.id).execute();
        return await settle(tx, job, used, { actor: 'bursar', at: 3 });
      }),
    );
    const answers = results.map((result) => result.status === 'fulfilled' && result.value);
    assert.equal(answers.filter(Boolean).length, 1);
    assert.equal(succeeded(results), 8);
    await assertBalanced();
  });

  test('nobody who writes a job and tells its owner waits for another one who does', async () => {
    const { id } = await newJob('1', 10);
    const { job_id: jobId } = await db
      .selectFrom('jobs')
      .select('job_id')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    const end = { outcome: 'failed', reason: '', exitCode: 1, startedAt: 1, endedAt: 2, elapsedSeconds: 1 } as const;
    const writers: ((tx: Tx) => Promise<unknown>)[] = [
      async (tx) => setExpiry(tx, { id, owner: '1' }, 5),
      ...(['QUEUED', 'FAILED'] as const).map((stage) => async (tx: Tx) => {
        const job = await findJob(tx, jobId);
        assert.ok(job);
        await updateStatus(tx, job, { state: 'ended', ...end }, publicColumns(stage)(id));
      }),
    ];
    // Not repeated, as others are, so that a deadlock fails.
    const results = await atOnce(30, (index) =>
      runWithoutRetry(db, db.transaction(), async (tx) => {
        await writers[index % writers.length]?.(tx);
        await sleep(2);
        await insertEvent(tx, { userId: '1', job: id, kind: 'job.ended', data: {}, at: 5 });
      }),
    );
    assert.deepEqual(
      results.filter(({ status }) => status === 'rejected'),
      [],
    );
  });

  test('an act under one key is carried out once, and everybody gets its answer', async () => {
    const { timePool } = await getAccounts(db, project, '1');
    const request = { userId: 'admin', key: 'k', content: ['act'] };
    const results = await atOnce(8, (index) =>
      runOnce(db, request, 5, async (tx) => {
        await applyMovement(tx, timePool.id, { granted: 1 });
        return { by: index };
      }),
    );
    const answers = new Set(results.map((result) => JSON.stringify(result.status === 'fulfilled' && result.value)));
    assert.equal(answers.size, 1);
    assert.equal((await getAccounts(db, project, '1')).timePool.granted, timePool.granted + 1);
  });

  test('periods that overlap are not opened, however many try', async () => {
    const results = await atOnce(6, () => {
      const period = { startsAt: 10, endsAt: 20, memberSeconds: 5, reserveSeconds: 0, reason: 'test' };
      return inTransaction(db, (tx) => openGrantPeriod(tx, project, period, 'admin', 5));
    });
    assert.equal(succeeded(results), 1);
    await assertBalanced();
  });

  test('who joins while a period is opened has a quota in it', async () => {
    const users = ['11', '12', '13', '14', '15', '16'];
    const period = { startsAt: 10, endsAt: null, memberSeconds: 5, reserveSeconds: 0, reason: 'test' };
    await Promise.all([
      inTransaction(db, (tx) => openGrantPeriod(tx, project, period, 'admin', 5)),
      ...users.map((user) => enrolUser(db, user, 'user', 5)),
    ]);
    for (const user of users) {
      const [quota] = await findQuotas(db, { userId: user }, 11);
      assert.ok((quota?.time.cap.granted ?? 0) > 0, user);
    }
    await assertBalanced();
  });

  test('strangers who are seen for the first time at once become different users, and one of them only one', async () => {
    const identity = (subject: string) => ({ issuer: 'https://idp', subject, userId: null, admin: false });
    const oidc = { verify: async (token: string) => identity(token) };
    const subjects = ['a', 'b', 'c', 'd', 'a', 'b', 'c', 'd'];
    const actors = await Promise.all(
      subjects.map((subject) => authenticate({ db, oidc, now: () => 5 }, `Bearer ${subject}`)),
    );
    const ids = actors.map(({ userId }) => userId);
    assert.equal(new Set(ids).size, 4);
    assert.deepEqual(ids.slice(0, 4), ids.slice(4));
    await assertBalanced();
  });

  test('servers that start at once make each project once', async () => {
    const projects = [...(books.config.systems.sys?.projects ?? [])];
    const [first] = projects;
    assert.ok(first);
    const system = { ...books.config.systems.sys, projects: [...projects, { ...first, name: 'another' }] };
    const config = { ...books.config, systems: { sys: system } } as typeof books.config;
    const results = await atOnce(4, () => syncProjects(db, config, 7));
    assert.equal(succeeded(results), 4);
    const members = await db.selectFrom('memberships').select('id').execute();
    assert.equal(members.length, 4);
    await assertBalanced();
  });
});
