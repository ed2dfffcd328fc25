import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { changeGrant } from '../../../src/services/accounting/grants.ts';
import { openGrantPeriod } from '../../../src/services/accounting/periods.ts';
import type { GrantChange } from '../../../src/services/accounting/quota-events.ts';
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
import { placeHold, settle } from '../../../src/store/ledger/ledger.ts';
import { findQuotas } from '../../../src/store/ledger/quotas.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { getAccounts } from '../../support/accounts.ts';
import { openTestDatabase, publicColumns, storeEnd, type TestDatabase } from '../../support/test-database.ts';

// Concurrent transactions on the same rows. SQLite runs them one after the other; on PostgreSQL they conflict.

let database: TestDatabase;
let db: Db;
let project: ProjectRecord;

beforeEach(async () => {
  database = await openTestDatabase(['1', '2'], 1000, 500);
  db = database.db;
  const found = await findProject(db, 'sys', 'proj');
  assert.ok(found);
  project = found;
});
afterEach(() => database.close());

const runConcurrently = <T>(count: number, run: (index: number) => Promise<T>) =>
  Promise.allSettled(Array.from({ length: count }, (_, index) => run(index)));
const countSucceeded = (results: PromiseSettledResult<unknown>[]) =>
  results.filter(({ status }) => status === 'fulfilled').length;

async function assertBalanced(): Promise<void> {
  assert.deepEqual((await verifyLedger(db)).problems, []);
}

let jobNumber = 0;
async function createJob(owner: string, timeSeconds: number): Promise<{ id: number }> {
  const accounts = await getAccounts(db, project, owner);
  const command = { kind: 'line', line: 'true' } as const;
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, command, tool: null, entry: null };
  return await inTransaction(db, async (tx) => {
    const jobId = `CONFLICT-${jobNumber++}`;
    const job = { jobId, owner, project, request, units: 1, input: null, acceptedAt: 2 };
    const { id } = await insertJob(tx, job, publicColumns('QUEUED'), {});
    const note = { actor: owner, reason: 'test', at: 2 };
    const { shortfall } = await placeHold(tx, { id }, accounts, { timeSeconds, spaceBytes: 0 }, note);
    assert.equal(shortfall, null);
    return { id };
  });
}

const applyGrant = (act: GrantChange) => inTransaction(db, (tx) => changeGrant(tx, project, act, 'admin', 5));

describe('concurrent transactions', () => {
  test('that lock the same accounts in opposite orders all succeed after retries', async () => {
    const [first, second] = [await getAccounts(db, project, '1'), await getAccounts(db, project, '2')];
    const both = [first.timeCap.id, second.timeCap.id];
    const results = await runConcurrently(6, (index) =>
      inTransaction(db, async (tx) => {
        for (const id of index % 2 === 0 ? both : [...both].reverse()) {
          await applyMovement(tx, id, { granted: 1 });
          await sleep(5);
        }
      }),
    );
    assert.equal(countSucceeded(results), 6);
    const after = await getAccounts(db, project, '1');
    assert.equal(after.timeCap.granted, first.timeCap.granted + 6);
  });

  test('that transfer in both directions keep the total', async () => {
    const results = await runConcurrently(20, (index) => {
      const [from, to] = index % 2 === 0 ? ['1', '2'] : ['2', '1'];
      return applyGrant({ kind: 'transfer', from, to, resource: 'time', amount: 10, reason: 'test' });
    });
    assert.equal(countSucceeded(results), 20);
    assert.equal((await getAccounts(db, project, '1')).timeCap.granted, 1000);
    await assertBalanced();
  });

  test('cannot grant the unallocated part of a pool twice', async () => {
    await applyGrant({ kind: 'top_up', user: null, resource: 'time', amount: 100, source: 'new', reason: 'reserve' });
    const request = { kind: 'top_up', resource: 'time', amount: 40, source: 'pool', reason: 'test' } as const;
    const results = await runConcurrently(8, (index) => applyGrant({ ...request, user: index % 2 === 0 ? '1' : '2' }));
    assert.equal(countSucceeded(results), 2);
    await assertBalanced();
  });

  test('report what is available in the pool if that is less than in the cap', async () => {
    const job = await createJob('1', 1000);
    await inTransaction(db, async (tx) => {
      await storeEnd(tx, job.id);
      const used = { kind: 'settled', timeSeconds: 1600, spaceBytes: 0, rule: 'test' } as const;
      await settle(tx, job, used, { actor: 'bursar', at: 3 });
    });
    const request = { kind: 'withdraw', user: '2', resource: 'time', amount: 500, source: 'new', reason: 'x' } as const;
    const message = '500 seconds is more than the amount that user 2 has available: 400 seconds.';
    await assert.rejects(applyGrant(request), { code: 'conflict', message });
    await applyGrant({ ...request, amount: 400 });
  });

  test('cannot refund a job more than its charge', async () => {
    const job = await createJob('1', 100);
    // The second job makes the used time of the account larger than the charge of the first.
    for (const each of [job, await createJob('1', 500)]) {
      await inTransaction(db, async (tx) => {
        await storeEnd(tx, each.id);
        const used = { kind: 'settled', timeSeconds: each === job ? 100 : 500, spaceBytes: 0, rule: 'test' } as const;
        await settle(tx, each, used, { actor: 'bursar', at: 3 });
      });
    }
    const { jobId } = await db.selectFrom('jobs').select('jobId').where('id', '=', job.id).executeTakeFirstOrThrow();
    const results = await runConcurrently(8, () =>
      applyGrant({ kind: 'refund', job_id: jobId, amount: 60, reason: 'test' }),
    );
    assert.equal(countSucceeded(results), 1);
    await assertBalanced();
  });

  test('settle a hold once', async () => {
    const job = await createJob('1', 300);
    const used = { kind: 'settled', timeSeconds: 100, spaceBytes: 0, rule: 'test' } as const;
    const results = await runConcurrently(8, () =>
      inTransaction(db, async (tx) => {
        await storeEnd(tx, job.id);
        return await settle(tx, job, used, { actor: 'bursar', at: 3 });
      }),
    );
    const settled = results.map((result) => result.status === 'fulfilled' && result.value);
    assert.equal(settled.filter(Boolean).length, 1);
    assert.equal(countSucceeded(results), 8);
    await assertBalanced();
  });

  test('that write the same job and an event of its owner do not deadlock', async () => {
    const { id } = await createJob('1', 10);
    const { jobId } = await db.selectFrom('jobs').select('jobId').where('id', '=', id).executeTakeFirstOrThrow();
    const end = { outcome: 'failed', reason: '', exitCode: 1, startedAt: 1, endedAt: 2, elapsedSeconds: 1 } as const;
    const writers: ((tx: Tx) => Promise<unknown>)[] = [
      async (tx) => setExpiry(tx, { id, owner: '1' }, 5),
      ...(['QUEUED', 'FAILED'] as const).map((stage) => async (tx: Tx) => {
        const job = await findJob(tx, jobId);
        assert.ok(job);
        await updateStatus(tx, job, { state: 'ended', ...end }, publicColumns(stage)(id));
      }),
    ];
    // Without retries, so that a deadlock fails the test.
    const results = await runConcurrently(30, (index) =>
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

  test('with the same idempotency key run once, and all return the same response', async () => {
    const { timePool } = await getAccounts(db, project, '1');
    const request = { userId: 'admin', key: 'k', content: ['act'] };
    const results = await runConcurrently(8, (index) =>
      runOnce(db, request, 5, async (tx) => {
        await applyMovement(tx, timePool.id, { granted: 1 });
        return { by: index };
      }),
    );
    const responses = new Set(results.map((result) => JSON.stringify(result.status === 'fulfilled' && result.value)));
    assert.equal(responses.size, 1);
    assert.equal((await getAccounts(db, project, '1')).timePool.granted, timePool.granted + 1);
  });

  test('cannot open overlapping periods', async () => {
    const results = await runConcurrently(6, () => {
      const period = { startsAt: 10, endsAt: 20, memberSeconds: 5, reserveSeconds: 0, reason: 'test' };
      return inTransaction(db, (tx) => openGrantPeriod(tx, project, period, 'admin', 5));
    });
    assert.equal(countSucceeded(results), 1);
    await assertBalanced();
  });

  test('that enrol users while a period is opened give them a quota in it', async () => {
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

  test('that authenticate new subjects create one user for each subject', async () => {
    const unknown = {
      issuedAt: 0,
      userId: null,
      name: null,
      mail: null,
      role: null,
      memberships: [],
      syncMemberships: false,
    };
    const oidc = { verify: async (subject: string) => ({ ...unknown, issuer: 'https://idp', subject }) };
    const subjects = ['a', 'b', 'c', 'd', 'a', 'b', 'c', 'd'];
    const actors = await Promise.all(
      subjects.map((subject) => {
        const credentials = { authorization: `Bearer ${subject}`, address: '127.0.0.1', requestId: '' };
        const accessTopic = { publish: () => undefined };
        const deps = { db, oidc, sessions: { idleMs: 1, maxMs: 1 }, now: () => 5, accessTopic };
        return authenticate(deps, credentials);
      }),
    );
    const ids = actors.map(({ userId }) => userId);
    assert.equal(new Set(ids).size, 4);
    assert.deepEqual(ids.slice(0, 4), ids.slice(4));
    await assertBalanced();
  });

  test('of servers that start together create each project once', async () => {
    const projects = [...(database.config.systems.sys?.projects ?? [])];
    const [first] = projects;
    assert.ok(first);
    const system = { ...database.config.systems.sys, projects: [...projects, { ...first, name: 'another' }] };
    const config = { ...database.config, systems: { sys: system } } as typeof database.config;
    const results = await runConcurrently(4, () => syncProjects(db, config, 7));
    assert.equal(countSucceeded(results), 4);
    const members = await db.selectFrom('memberships').select('id').execute();
    assert.equal(members.length, 4);
    await assertBalanced();
  });
});
