import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { toHpcSystems } from '../../../src/config/hpc-systems.ts';
import { listQuotas } from '../../../src/services/accounting/read-quotas.ts';
import type { Tx } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import { readJobsVersion } from '../../../src/store/jobs/job-lists.ts';
import { requestCancellation } from '../../../src/store/jobs/job-queue.ts';
import { findJob, insertJob } from '../../../src/store/jobs/jobs.ts';
import { ensureAccount, findAccounts } from '../../../src/store/ledger/accounts.ts';
import { addGrant } from '../../../src/store/ledger/grants.ts';
import { placeHold } from '../../../src/store/ledger/ledger.ts';
import { findCurrentPeriodId, insertPeriod } from '../../../src/store/ledger/periods.ts';
import { getQuotasVersion } from '../../../src/store/ledger/quotas.ts';
import { advanceJob } from '../../../src/workers/jobs/advance-job.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../../support/test-database.ts';

let database: TestDatabase;
before(async () => {
  database = await openTestDatabase(['1', '2'], 1_000_000, 1000);
});
after(() => database.close());

async function findUserAccounts(user: string) {
  const project = await findProject(database.db, 'sys', 'proj');
  assert.ok(project);
  const accounts = await findAccounts(
    database.db,
    project.id,
    (await findCurrentPeriodId(database.db, project.id, 2)) ?? 0,
    user,
  );
  assert.ok(accounts);
  return { project, accounts };
}

async function submit(jobId: string) {
  const { db } = database;
  const { project, accounts } = await findUserAccounts('1');
  const command = { kind: 'line', line: 'true' } as const;
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
  const job = { jobId, owner: '1', project, request, units: 1, input: null, acceptedAt: 2 };
  await inTransaction(db, async (tx) => {
    const { id } = await insertJob(tx, job, publicColumns('QUEUED'), {});
    const note = { actor: '1', reason: 'test', at: 2 };
    await placeHold(tx, { id }, accounts, { timeSeconds: 5, spaceBytes: 5 }, note);
  });
}

const readJob = async (jobId: string) => {
  const job = await findJob(database.db, jobId);
  assert.ok(job);
  return job;
};

describe("the version of a user's jobs", () => {
  test('changes only when their public JSON changes, and not for other users', async () => {
    const { db, config } = database;
    const system = toHpcSystems(config).get('sys');
    assert.ok(system);
    const end = { outcome: 'succeeded', reason: '', exitCode: 0, startedAt: 2, endedAt: 3, elapsedSeconds: 1 } as const;
    const lease = {
      assertValid: () => undefined,
      transaction: <T>(work: (tx: Tx) => Promise<T>) => inTransaction(db, work),
    };
    const advance = async (next: Parameters<typeof advanceJob>[2]['next']) =>
      assert.ok(
        await advanceJob({ lease, system, publish: () => undefined, now: () => 3 }, await readJob('V-1'), { next }),
      );
    const steps: [name: string, run: () => Promise<unknown>][] = [
      ['accepted', () => submit('V-1')],
      ['queued', () => advance({ state: 'queued' })],
      [
        'cancellation requested',
        async () => {
          const { id } = await readJob('V-1');
          assert.ok(await inTransaction(db, (tx) => requestCancellation(tx, id, { by: '1', at: 5 })));
        },
      ],
      ['running', () => advance({ state: 'running', startedAt: 2 })],
      ['ended', () => advance({ state: 'ended', ...end })],
    ];
    let json = '';
    for (const [name, run] of steps) {
      const before = await readJobsVersion(db, '1');
      await run();
      const publicJson = (await readJob('V-1')).publicJson;
      assert.equal((await readJobsVersion(db, '1')) !== before, publicJson !== json, name);
      json = publicJson;
    }
    assert.equal(await readJobsVersion(db, '2'), '0');
    assert.equal(await readJobsVersion(db, undefined), await readJobsVersion(db, '1'));
  });

  test('does not change when the transaction is rolled back', async () => {
    const before = await readJobsVersion(database.db, '1');
    const failing = inTransaction(database.db, async (tx) => {
      const { project } = await findTestProject(tx);
      const command = { kind: 'line', line: 'true' } as const;
      const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
      const job = { jobId: 'V-2', owner: '1', project, request, units: 1, input: null, acceptedAt: 2 };
      await insertJob(tx, job, publicColumns('QUEUED'), {});
      throw new Error('rolled back');
    });
    await assert.rejects(failing, /rolled back/);
    assert.equal(await readJobsVersion(database.db, '1'), before);
  });
});

const findTestProject = async (db: TestDatabase['db']) => {
  const project = await findProject(db, 'sys', 'proj');
  assert.ok(project);
  return { project };
};

const quotasVersion = async (user: string, now: number) =>
  (await listQuotas({ db: database.db, systems: toHpcSystems(database.config), now: () => now }, user, {})).version;

describe('the version of quotas', () => {
  test('changes with the cap of the user and with the pool, but not with the cap of another user', async () => {
    const { db } = database;
    const { accounts: mine } = await findUserAccounts('1');
    const { accounts: theirs } = await findUserAccounts('2');
    const note = { actor: '9', reason: 'test', at: 4 };
    const grant = (id: number) => inTransaction(db, (tx) => addGrant(tx, id, 1, 'top_up', note));
    for (const [account, rises] of [
      [mine.timeCap, true],
      [mine.spacePool, true],
      [theirs.timeCap, false],
    ] as const) {
      const before = await quotasVersion('1', 10);
      const all = await getQuotasVersion(db, 10);
      await grant(account.id);
      assert.equal((await quotasVersion('1', 10)) !== before, rises);
      assert.notEqual(await getQuotasVersion(db, 10), all);
    }
  });

  test('changes with a pool without an update of users', async () => {
    const { db } = database;
    const rows = () => db.selectFrom('users').selectAll().orderBy('id').execute();
    const before = await rows();
    const { accounts } = await findUserAccounts('1');
    const note = { actor: '9', reason: 'test', at: 4 };
    await inTransaction(db, (tx) => addGrant(tx, accounts.timePool.id, 1, 'top_up', note));
    assert.deepEqual(await rows(), before);
  });

  test('changes when a period begins or ends, without a write', async () => {
    const { db } = database;
    const { project } = await findUserAccounts('1');
    await inTransaction(db, async (tx) => {
      const periodId = await insertPeriod(tx, { projectId: project.id, startsAt: 500, endsAt: 600 });
      await ensureAccount(tx, { projectId: project.id, holder: '1', resource: 'time', periodId });
    });
    const own: string[] = [];
    const all: string[] = [];
    for (const now of [499, 500, 599, 600]) {
      own.push(await quotasVersion('1', now));
      all.push(await getQuotasVersion(db, now));
    }
    // A user's version after the period equals the one before it; the version of all quotas counts ended periods.
    const firstIndexes = (versions: string[]) => versions.map((version) => versions.indexOf(version));
    assert.deepEqual(firstIndexes(own), [0, 1, 1, 0]);
    assert.deepEqual(firstIndexes(all), [0, 1, 1, 3]);
  });
});
