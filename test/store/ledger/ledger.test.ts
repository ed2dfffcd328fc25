import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { availableBalance } from '../../../src/domain/accounting/charge.ts';
import { enrolUser, syncProjects } from '../../../src/services/identity/enrolment.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import { insertJob } from '../../../src/store/jobs/jobs.ts';
import { type AccountSet, findAccounts } from '../../../src/store/ledger/accounts.ts';
import { placeHold, settle } from '../../../src/store/ledger/ledger.ts';
import { findCurrentPeriodId } from '../../../src/store/ledger/periods.ts';
import { findQuotas } from '../../../src/store/ledger/quotas.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { openTestDatabase, publicColumns, storeEnd, type TestDatabase } from '../../support/test-database.ts';

let database: TestDatabase;
beforeEach(async () => {
  database = await openTestDatabase(['1', '2'], 1000, 500);
});
afterEach(() => database.close());

async function findUserAccounts(db: Db, user: string): Promise<AccountSet> {
  const project = await findProject(db, 'sys', 'proj');
  assert.ok(project);
  const accounts = await findAccounts(db, project.id, (await findCurrentPeriodId(db, project.id, 2)) ?? 0, user);
  assert.ok(accounts);
  return accounts;
}

let jobNumber = 0;
class NotHeld extends Error {}

/** Inserts a job with a hold, and returns its id. Returns null, and rolls back, if the quota is too small. */
async function hold(db: Db, user: string, timeSeconds: number, spaceBytes: number): Promise<number | null> {
  const project = await findProject(db, 'sys', 'proj');
  assert.ok(project);
  const accounts = await findUserAccounts(db, user);
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null };
  try {
    return await inTransaction(db, async (tx) => {
      const job = {
        jobId: `JOB-${jobNumber++}`,
        owner: user,
        project,
        request: { ...request, command: { kind: 'line', line: 'true' } as const },
        units: 1,
        input: null,
        acceptedAt: 2,
      };
      const { id } = await insertJob(tx, job, publicColumns('QUEUED'), {});
      const note = { actor: user, reason: 'test', at: 2 };
      const { shortfall } = await placeHold(tx, { id }, accounts, { timeSeconds, spaceBytes }, note);
      if (shortfall !== null) throw new NotHeld();
      return id;
    });
  } catch (error) {
    if (error instanceof NotHeld) return null;
    throw error;
  }
}

/** Ends a job as the workers do: its state and its settlement in one transaction. */
async function finish(db: Db, id: number, timeSeconds: number, spaceBytes: number): Promise<boolean> {
  return await inTransaction(db, async (tx) => {
    await storeEnd(tx, id);
    const used = { kind: 'settled', timeSeconds, spaceBytes, rule: 'test' } as const;
    return await settle(tx, { id }, used, { actor: 'bursar', at: 3 });
  });
}

async function getAvailable(db: Db, user: string): Promise<{ time: number; space: number }> {
  const { timePool, timeCap, spacePool, spaceCap } = await findUserAccounts(db, user);
  return {
    time: Math.min(availableBalance(timePool), availableBalance(timeCap)),
    space: Math.min(availableBalance(spacePool), availableBalance(spaceCap)),
  };
}

describe('the ledger', () => {
  test('grants to each member once, and adds the grants to the pool', async () => {
    const { db, config } = database;
    await enrolUser(db, '1', 'user', 5);
    await syncProjects(db, config, 6);
    const { timePool, timeCap, spacePool } = await findUserAccounts(db, '1');
    assert.deepEqual([timePool.granted, timeCap.granted, spacePool.granted], [2000, 1000, 1_000_000]);
    assert.deepEqual((await verifyLedger(db)).problems, []);
  });

  test('does not grant again to a user with an exhausted quota who is enrolled again', async () => {
    const { db } = database;
    const id = await hold(db, '1', 1000, 0);
    assert.ok(id !== null);
    await finish(db, id, 1000, 0);
    await enrolUser(db, '1', 'user', 7);
    assert.equal((await getAvailable(db, '1')).time, 0);
  });

  test('holds the requested amounts, and settles with the used ones', async () => {
    const { db } = database;
    const id = await hold(db, '1', 600, 300_000);
    assert.ok(id !== null);
    assert.deepEqual(await getAvailable(db, '1'), { time: 400, space: 200_000 });
    await finish(db, id, 100, 10_000);
    assert.deepEqual(await getAvailable(db, '1'), { time: 900, space: 490_000 });
    assert.deepEqual((await verifyLedger(db)).problems, []);
  });

  test('rolls back a hold that exceeds the quota', async () => {
    const { db } = database;
    assert.equal(await hold(db, '1', 1001, 0), null);
    assert.equal(await hold(db, '1', 1, 500_001), null);
    assert.deepEqual(await getAvailable(db, '1'), { time: 1000, space: 500_000 });
    assert.deepEqual(await db.selectFrom('jobs').selectAll().execute(), []);
    assert.deepEqual((await verifyLedger(db)).problems, []);
  });

  test('settles a hold once; a second settlement changes nothing', async () => {
    const { db } = database;
    const id = await hold(db, '1', 600, 0);
    assert.ok(id !== null);
    assert.equal(await finish(db, id, 100, 0), true);
    assert.equal(await finish(db, id, 600, 0), false);
    assert.equal((await getAvailable(db, '1')).time, 900);
  });

  test('records use beyond the grant as overrun, which blocks new holds', async () => {
    const { db } = database;
    const id = await hold(db, '1', 1000, 0);
    assert.ok(id !== null);
    await finish(db, id, 1200, 0);
    const { timeCap } = await findUserAccounts(db, '1');
    assert.deepEqual([timeCap.posted, timeCap.overrun], [1000, 200]);
    assert.equal(await hold(db, '1', 0, 0), null);
    assert.deepEqual((await verifyLedger(db)).problems, []);
  });

  test('accepts one of a hundred concurrent holds if the quota is enough for one', async () => {
    const { db } = database;
    const results = await Promise.all(Array.from({ length: 100 }, () => hold(db, '1', 700, 0)));
    assert.equal(results.filter((id) => id !== null).length, 1);
    assert.deepEqual((await verifyLedger(db)).problems, []);
  });

  test('is append-only: the database rejects updates and deletes of entries and resolutions', async () => {
    const { db } = database;
    const id = await hold(db, '1', 1, 0);
    assert.ok(id !== null);
    await finish(db, id, 1, 0);
    await assert.rejects(db.updateTable('entries').set({ held: 0 }).execute(), /append-only/);
    await assert.rejects(db.deleteFrom('entries').execute(), /append-only/);
    await assert.rejects(db.deleteFrom('resolutions').execute(), /append-only/);
  });

  test('shows pool and cap in the quota of each member', async () => {
    const { db } = database;
    await hold(db, '2', 250, 0);
    const [quota] = await findQuotas(db, { userId: '1' }, 2);
    assert.equal(quota?.time.pool.held, 250);
    assert.equal(quota?.time.cap.held, 0);
  });

  test('balances after any sequence of holds and settlements', async () => {
    const act = fc.oneof(
      fc.record({
        kind: fc.constant('hold'),
        user: fc.constantFrom('1', '2'),
        time: fc.nat(500),
        space: fc.nat(90_000),
      }),
      fc.record({ kind: fc.constant('finish'), pick: fc.nat(100), time: fc.nat(700), space: fc.nat(150_000) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 25 }), async (acts) => {
        const fresh = await openTestDatabase(['1', '2'], 1000, 500);
        try {
          const open: number[] = [];
          for (const step of acts) {
            if ('user' in step) {
              const id = await hold(fresh.db, step.user, step.time, step.space);
              if (id !== null) open.push(id);
            } else {
              const [id] = open.splice(step.pick % Math.max(1, open.length), 1);
              if (id !== undefined) await finish(fresh.db, id, step.time, step.space);
            }
          }
          assert.deepEqual((await verifyLedger(fresh.db)).problems, []);
        } finally {
          await fresh.close();
        }
      }),
      { numRuns: 25 },
    );
  });
});

class RolledBack extends Error {}

/** Statements that make the ledger inconsistent, and a problem that the verification must find. */
const corruptions: readonly [description: string, statements: readonly string[], problem: RegExp][] = [
  ['a balance', ['update accounts set granted = granted + 1'], /^account 1: its balance is not the sum/],
  ['an amount of an entry', ["update entries set held = 1 where kind = 'grant'"], /its balance is not the sum/],
  [
    'an available amount',
    ["update entries set available_after = 7 where kind = 'reserve'"],
    /^account \d+: the available amount of entry \d+ does not follow from the entry before it$/,
  ],
  ['an entry of no account', ["update entries set account_id = 99 where kind = 'charge'"], /: there is no account 99$/],
  ['an amount of an open hold', ['update holds set time_seconds = 1'], /: its held amount is \d+, but its open holds/],
  ['a counter of open holds', ['update accounts set open_holds = 5'], /: it counts 5 open holds, but has [01]$/],
  ['a counter of unfinished jobs', ['update users set unfinished_jobs = 9'], /^user 1: counts 9 unfinished jobs/],
  ['the use of a pool', ["update accounts set posted = 0 where holder = ''"], /the pool's use of time is not the sum/],
  ['the held amount of a pool', ["update accounts set held = 0 where holder = ''"], /the pool's use of space is not/],
  ['the grant of a pool', ["update accounts set granted = 9 where holder = ''"], /its caps are granted more time than/],
  [
    'the grant of a cap',
    ["update accounts set granted = 9 where holder = '1'"],
    /: more is posted and held than granted$/,
  ],
  [
    'an end without settlement',
    ["update jobs set state = 'ended'"],
    /^job 2: its state is ended, but its hold is missing/,
  ],
  ['a settlement without end', ["update jobs set state = 'running'"], /^job 1: its state is running, but its hold is/],
  [
    'an unknown state',
    ["update jobs set state = 'finished'"],
    /^job 1: its state is finished, but its hold is missing/,
  ],
  [
    'an ended job without hold',
    ['delete from resolutions', 'delete from holds where job = 1'],
    /^job 1: its state is ended, but its hold/,
  ],
  [
    'an unfinished job without hold',
    ['delete from holds where job = 2'],
    /^job 2: its state is accepted, but its hold is missing/,
  ],
  [
    'the settlement of an unfinished job',
    [
      `insert into resolutions (hold_id, kind, time_seconds, space_bytes, rule, at)
         select id, 'voided', 0, 0, '', 2 from holds where job = 2`,
    ],
    /^job 2: its state is accepted, but its hold is missing, or its settlement does not match the state$/,
  ],
  [
    'the time of a month',
    ['update monthly_usage set time_seconds = 1'],
    /^user 1: the usage of project 1 in 1970-01 is/,
  ],
  ['the jobs of a month', ['update monthly_usage set jobs = 2'], /^user 1: the usage of project 1 in 1970-01 is not/],
  ['a missing month', ['delete from monthly_usage'], /^user 1: the usage of project 1 in 1970-01 is not the sum/],
  [
    'another month',
    ["update monthly_usage set month = '1970-02'"],
    /^user 1: the usage of project 1 in 1970-02 is not/,
  ],
];

test('the verification finds every kind of inconsistency', async () => {
  const { db } = database;
  const ended = await hold(db, '1', 600, 300_000);
  assert.ok(ended !== null);
  await finish(db, ended, 100, 10_000);
  await hold(db, '1', 50, 5000);
  // The database itself refuses most of these changes.
  const unlock =
    db.backend.dialect.name === 'postgres'
      ? ['set local session_replication_role = replica']
      : [
          'pragma defer_foreign_keys = on',
          ...['entries', 'resolutions'].flatMap((table) =>
            ['update', 'delete'].map((change) => `drop trigger ${table}_refuse_${change}`),
          ),
        ];
  assert.deepEqual((await verifyLedger(db)).problems, []);
  for (const [description, statements, problem] of corruptions) {
    const corruptAndRollBack = inTransaction(db, async (tx) => {
      for (const statement of [...unlock, ...statements]) await sql.raw(statement).execute(tx);
      const { problems, balanced } = await verifyLedger(tx);
      assert.ok(!balanced && problems.some((text) => problem.test(text)), `${description}: ${problems.join('\n')}`);
      throw new RolledBack();
    });
    await assert.rejects(corruptAndRollBack, RolledBack);
  }
  assert.deepEqual((await verifyLedger(db)).problems, []);
});
