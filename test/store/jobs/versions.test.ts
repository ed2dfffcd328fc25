import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { toHpcSystems } from '../../../src/config/hpc-systems.ts';
import { listQuotas } from '../../../src/services/accounting/read-quotas.ts';
import type { Db, Tx } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import { readJobPage } from '../../../src/store/jobs/job-lists.ts';
import { requestCancellation } from '../../../src/store/jobs/job-queue.ts';
import { findJob, insertJob } from '../../../src/store/jobs/jobs.ts';
import { ensureAccount, findAccounts } from '../../../src/store/ledger/accounts.ts';
import { addGrant } from '../../../src/store/ledger/grants.ts';
import { reserve } from '../../../src/store/ledger/ledger.ts';
import { findCurrentPeriodId, insertPeriod } from '../../../src/store/ledger/periods.ts';
import { getQuotasVersion } from '../../../src/store/ledger/quotas.ts';
import { advanceJob } from '../../../src/workers/advance-job.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../../support/test-database.ts';

let books: TestDatabase;
before(async () => {
  books = await openTestDatabase(['1', '2'], 1_000_000, 1000);
});
after(() => books.close());

async function accountsOf(user: string) {
  const project = await findProject(books.db, 'sys', 'proj');
  assert.ok(project);
  const accounts = await findAccounts(
    books.db,
    project.id,
    (await findCurrentPeriodId(books.db, project.id, 2)) ?? 0,
    user,
  );
  assert.ok(accounts);
  return { project, accounts };
}

async function submit(jobId: string) {
  const { db } = books;
  const { project, accounts } = await accountsOf('1');
  const command = { kind: 'line', line: 'true' } as const;
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
  const job = { jobId, owner: '1', project, request, units: 1, input: null, acceptedAt: 2 };
  await inTransaction(db, async (tx) => {
    const { id } = await insertJob(tx, job, publicColumns('QUEUED'), {});
    const note = { actor: '1', reason: 'test', at: 2 };
    await reserve(tx, { id, attempt: 1 }, accounts, { timeSeconds: 5, spaceBytes: 5 }, note);
  });
}

const jobNow = async (jobId: string) => {
  const job = await findJob(books.db, jobId);
  assert.ok(job);
  return job;
};

const jobsVersion = async (db: Db, owner: string | undefined) =>
  (await readJobPage(db, owner === undefined ? {} : { owner }, 0, 1)).version;

describe('the version of the jobs of a user', () => {
  test('rises when what they show changes, and only then, and not for others', async () => {
    const { db, config } = books;
    const system = toHpcSystems(config).get('sys');
    assert.ok(system);
    const end = { outcome: 'succeeded', reason: '', exitCode: 0, startedAt: 2, endedAt: 3, elapsedSeconds: 1 } as const;
    const tenure = {
      assertValid: () => undefined,
      transaction: <T>(work: (tx: Tx) => Promise<T>) => inTransaction(db, work),
    };
    const advance = async (next: Parameters<typeof advanceJob>[3]['next']) =>
      assert.ok(await advanceJob(tenure, await jobNow('V-1'), system, { next, now: 3 }));
    const steps: [what: string, act: () => Promise<unknown>][] = [
      ['accepted', () => submit('V-1')],
      ['queued', () => advance({ state: 'queued' })],
      ['wanted away', async () => requestCancellation(db, (await jobNow('V-1')).id, 5)],
      ['running', () => advance({ state: 'running', startedAt: 2 })],
      ['ended', () => advance({ state: 'ended', ...end })],
    ];
    let json = '';
    for (const [what, act] of steps) {
      const before = await jobsVersion(db, '1');
      await act();
      const shown = (await jobNow('V-1')).publicJson;
      assert.equal((await jobsVersion(db, '1')) !== before, shown !== json, what);
      json = shown;
    }
    assert.equal(await jobsVersion(db, '2'), '0');
    assert.equal(await jobsVersion(db, undefined), await jobsVersion(db, '1'));
  });

  test('does not rise when the transaction comes to nothing', async () => {
    const before = await jobsVersion(books.db, '1');
    const failing = inTransaction(books.db, async (tx) => {
      const { project } = await accountsOfIn(tx);
      const command = { kind: 'line', line: 'true' } as const;
      const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
      const job = { jobId: 'V-2', owner: '1', project, request, units: 1, input: null, acceptedAt: 2 };
      await insertJob(tx, job, publicColumns('QUEUED'), {});
      throw new Error('rolled back');
    });
    await assert.rejects(failing, /rolled back/);
    assert.equal(await jobsVersion(books.db, '1'), before);
  });
});

const accountsOfIn = async (db: TestDatabase['db']) => {
  const project = await findProject(db, 'sys', 'proj');
  assert.ok(project);
  return { project };
};

const versionOf = async (user: string, now: number) =>
  (await listQuotas(books.db, toHpcSystems(books.config), user, {}, now)).version;

describe('the version of the quotas of a user', () => {
  test('rises with the cap of the user, with the pool, and not with the cap of another one', async () => {
    const { db } = books;
    const { accounts: mine } = await accountsOf('1');
    const { accounts: theirs } = await accountsOf('2');
    const note = { actor: '9', reason: 'test', at: 4 };
    const grant = (id: number) => inTransaction(db, (tx) => addGrant(tx, id, 1, 'top_up', note));
    for (const [account, rises] of [
      [mine.timeCap, true],
      [mine.spacePool, true],
      [theirs.timeCap, false],
    ] as const) {
      const before = await versionOf('1', 10);
      const all = await getQuotasVersion(db, 10);
      await grant(account.id);
      assert.equal((await versionOf('1', 10)) !== before, rises);
      assert.notEqual(await getQuotasVersion(db, 10), all);
    }
  });

  test('a movement of the pool touches no row but its own', async () => {
    const { db } = books;
    const rows = () => db.selectFrom('users').selectAll().orderBy('id').execute();
    const before = await rows();
    const { accounts } = await accountsOf('1');
    const note = { actor: '9', reason: 'test', at: 4 };
    await inTransaction(db, (tx) => addGrant(tx, accounts.timePool.id, 1, 'top_up', note));
    assert.deepEqual(await rows(), before);
  });

  test('is not the same before and after a period begins, though nobody has written anything', async () => {
    const { db } = books;
    const { project } = await accountsOf('1');
    await inTransaction(db, async (tx) => {
      const periodId = await insertPeriod(tx, project.id, 500, 600);
      await ensureAccount(tx, { projectId: project.id, holder: '1', resource: 'time', periodId });
    });
    const own: string[] = [];
    const all: string[] = [];
    for (const now of [499, 500, 599, 600]) {
      own.push(await versionOf('1', now));
      all.push(await getQuotasVersion(db, now));
    }
    // For the user it is then what it was before the period; among all, one that has ended is told from one to come.
    const firstOf = (versions: string[]) => versions.map((version) => versions.indexOf(version));
    assert.deepEqual(firstOf(own), [0, 1, 1, 0]);
    assert.deepEqual(firstOf(all), [0, 1, 1, 3]);
  });
});
