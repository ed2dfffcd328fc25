import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { createJobListCache, type JobListCache } from '../../../src/services/jobs/job-list-cache.ts';
import type { Db, Tx } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import { readJobPage } from '../../../src/store/jobs/job-lists.ts';
import { findJob, insertJob, updateStatus } from '../../../src/store/jobs/jobs.ts';
import { recordStatements } from '../../support/statements.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

const owners = ['1', '2'];
const projects = [
  { hpc: 'one', project: 'a' },
  { hpc: 'one', project: 'b' },
  { hpc: 'two', project: 'a' },
];
const scopes = [{}, { hpc: 'one' }, { hpc: 'one', project: 'b' }];
const pages = [
  { from: 0, limit: 1000 },
  { from: 0, limit: 3 },
  { from: 2, limit: 2 },
  { from: 4, limit: 1000 },
];

let changes = 0;

/** Returns public columns with a new title on every call. */
const nextPublicColumns = (id: number) => ({
  json: `{"id":${id},"title":"a,b\\n${++changes}"}`,
  title: '',
  stage: 'QUEUED',
  isTerminal: false,
  isFailure: false,
});

/** Uses the transaction that the caller is in, or opens one. */
const withTx = <T>(db: Db, work: (tx: Tx) => Promise<T>): Promise<T> =>
  db.isTransaction ? work(db as Tx) : inTransaction(db, work);

async function insert(db: Db, owner: string, project = projects[0]): Promise<void> {
  const stored = await findProject(db, 'sys', 'proj');
  assert.ok(stored && project);
  const command = { kind: 'line', line: 'true' } as const;
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
  const jobProject = { id: stored.id, hpc: project.hpc, name: project.project };
  const job = { jobId: `JOB-${++changes}`, owner, project: jobProject, request, units: 1, input: null, acceptedAt: 1 };
  await withTx(db, (tx) => insertJob(tx, job, nextPublicColumns, {}));
}

async function change(db: Db, jobId: string): Promise<void> {
  const job = await findJob(db, jobId);
  assert.ok(job);
  assert.ok(await withTx(db, (tx) => updateStatus(tx, job, job.status, nextPublicColumns(job.id))));
}

const jobIds = async (db: Db, owner: string) =>
  (await db.selectFrom('jobs').select('job_id').where('owner', '=', owner).orderBy('id').execute()).map(
    ({ job_id }) => job_id,
  );

/** Asserts that every cached list equals the list read from the database. */
async function assertCacheMatches(db: Db, lists: JobListCache): Promise<void> {
  for (const owner of owners)
    for (const scope of scopes)
      for (const { from, limit } of pages) {
        const cached = await lists.readPage(db, { owner, ...scope }, from, limit);
        assert.deepEqual(cached, await readJobPage(db, { owner, ...scope }, from, limit));
      }
}

test('cached lists equal the stored ones after any inserts and changes, on every instance', async () => {
  const action = fc.record({
    kind: fc.constantFrom('insert', 'change'),
    owner: fc.constantFrom(...owners),
    project: fc.constantFrom(...projects),
    pick: fc.nat(),
  });
  const step = fc.record({
    actions: fc.array(action, { minLength: 0, maxLength: 4 }),
    inOneTransaction: fc.boolean(),
    readers: fc.constantFrom([], [0], [1], [0, 1]),
  });
  const run = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 20 }), async (steps) => {
    const database = await openTestDatabase(owners, 1000, 1000);
    try {
      const instances = [createJobListCache(1_000_000), createJobListCache(1_000_000)];
      for (const { actions, inOneTransaction, readers } of steps) {
        const carryOut = async (db: Db, { kind, owner, project, pick }: (typeof actions)[number]) => {
          const stored = kind === 'change' ? await jobIds(db, owner) : [];
          const jobId = stored[pick % Math.max(1, stored.length)];
          await (jobId === undefined ? insert(db, owner, project) : change(db, jobId));
        };
        const carryOutAll = async (db: Db) => {
          for (const action of actions) await carryOut(db, action);
        };
        if (inOneTransaction) await inTransaction(database.db, carryOutAll);
        else await carryOutAll(database.db);
        for (const reader of readers) await assertCacheMatches(database.db, instances[reader] as JobListCache);
      }
      for (const lists of instances) await assertCacheMatches(database.db, lists);
    } finally {
      await database.close();
    }
  });
  await fc.assert(run, { numRuns: 8 });
});

describe('the job list cache', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase(owners, 1000, 1000);
    for (let n = 0; n < 40; n++) await insert(database.db, '1');
  });
  after(() => database.close());

  test('misses no change of concurrent transactions', async () => {
    const { db } = database;
    const lists = createJobListCache(1_000_000);
    const remaining = await jobIds(db, '1');
    let writing = true;
    const read = async () => {
      const cached = await lists.readPage(db, { owner: '1' }, 0, 1000);
      const stored = await readJobPage(db, { owner: '1' }, 0, 1000);
      if (cached.version === stored.version) assert.deepEqual(cached, stored);
    };
    const reader = (async () => {
      while (writing) {
        await read();
        // On SQLite a read never waits, so without this the writers would not get to run.
        await sleep(1);
      }
    })();
    const writer = async () => {
      for (let jobId = remaining.pop(); jobId !== undefined; jobId = remaining.pop()) {
        const changed = jobId;
        await inTransaction(db, async (tx) => {
          await change(tx, changed);
          // Lets other transactions and the reader run before this one commits.
          await sleep(Math.random() * 10);
          if (Math.random() < 0.3) await insert(tx, '1');
        });
      }
    };
    await Promise.all([writer(), writer(), writer(), writer()]).finally(() => {
      writing = false;
    });
    await reader;
    assert.deepEqual(await lists.readPage(db, { owner: '1' }, 0, 1000), await readJobPage(db, { owner: '1' }, 0, 1000));
  });

  test('takes one query, changed or not; after too many changes it reads the whole page again', async () => {
    const { db, statements } = recordStatements(database.db);
    const lists = createJobListCache(1_000_000);
    const [jobId = ''] = await jobIds(database.db, '1');
    const countQueries = async () => {
      const before = statements.length;
      const page = await lists.readPage(db, { owner: '1' }, 0, 1000);
      const count = statements.length - before;
      assert.deepEqual(page, await readJobPage(database.db, { owner: '1' }, 0, 1000));
      return { count, version: page.version };
    };
    const { count, version } = await countQueries();
    assert.equal(count, 1);
    assert.deepEqual(await countQueries(), { count: 1, version });
    await change(database.db, jobId);
    assert.deepEqual(await countQueries(), { count: 1, version: String(Number(version) + 1) });
    for (let n = 0; n < 100; n++) await change(database.db, jobId);
    assert.equal((await countQueries()).count, 1);
    for (let n = 0; n < 101; n++) await change(database.db, jobId);
    assert.equal((await countQueries()).count, 2);
    assert.equal((await countQueries()).count, 1);
  });

  test('reads a page again that was evicted for lack of space', async () => {
    const { db, statements } = recordStatements(database.db);
    const lists = createJobListCache(1);
    for (let n = 0; n < 2; n++) {
      const page = await lists.readPage(db, { owner: '1' }, 0, 1000);
      assert.deepEqual(page, await readJobPage(database.db, { owner: '1' }, 0, 1000));
    }
    assert.ok(statements.every((statement) => statement.includes('string_agg')));
  });

  test('reads a page again if the version has gone back, because the database was restored', async () => {
    const lists = createJobListCache(1_000_000);
    const { version } = await lists.readPage(database.db, { owner: '1' }, 0, 1000);
    const before = Number(version) - 5;
    await database.db.updateTable('users').set({ jobs_version: before }).where('id', '=', '1').execute();
    await database.db.updateTable('jobs').set({ public_json: '{"id":0}' }).where('owner', '=', '1').execute();
    const page = await lists.readPage(database.db, { owner: '1' }, 0, 1000);
    assert.deepEqual(page, await readJobPage(database.db, { owner: '1' }, 0, 1000));
    assert.equal(page.version, String(before));
  });
});
