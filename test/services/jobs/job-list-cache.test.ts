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
const places = [
  { hpc: 'one', project: 'a' },
  { hpc: 'one', project: 'b' },
  { hpc: 'two', project: 'a' },
];
const scopes = [{}, { hpc: 'one' }, { hpc: 'one', project: 'b' }];
const pages = [
  { from: 0, most: 1000 },
  { from: 0, most: 3 },
  { from: 2, most: 2 },
  { from: 4, most: 1000 },
];

let changes = 0;

/** What a job shows, never twice the same. */
const shown = (id: number) => ({
  json: `{"id":${id},"title":"a,b\\n${++changes}"}`,
  title: '',
  stage: 'QUEUED',
  isTerminal: false,
  isFailure: false,
});

/** Uses the transaction that the caller is in, or opens one. */
const withTx = <T>(db: Db, work: (tx: Tx) => Promise<T>): Promise<T> =>
  db.isTransaction ? work(db as Tx) : inTransaction(db, work);

async function insert(db: Db, owner: string, place = places[0]): Promise<void> {
  const stored = await findProject(db, 'sys', 'proj');
  assert.ok(stored && place);
  const command = { kind: 'line', line: 'true' } as const;
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
  const project = { id: stored.id, hpc: place.hpc, name: place.project };
  const job = { jobId: `KEPT-${++changes}`, owner, project, request, units: 1, input: null, acceptedAt: 1 };
  await withTx(db, (tx) => insertJob(tx, job, shown, {}));
}

async function change(db: Db, jobId: string): Promise<void> {
  const job = await findJob(db, jobId);
  assert.ok(job);
  assert.ok(await withTx(db, (tx) => updateStatus(tx, job, job.status, shown(job.id))));
}

const jobIds = async (db: Db, owner: string) =>
  (await db.selectFrom('jobs').select('job_id').where('owner', '=', owner).orderBy('id').execute()).map(
    ({ job_id }) => job_id,
  );

/** Every list that there is, from what was kept, is the one that is read whole. */
async function assertRight(db: Db, lists: JobListCache): Promise<void> {
  for (const owner of owners)
    for (const scope of scopes)
      for (const { from, most } of pages) {
        const found = await lists.next(db, { owner, ...scope }, from, most);
        assert.deepEqual(found, await readJobPage(db, { owner, ...scope }, from, most));
      }
}

test('a list that is kept is the one that would be read, whatever has come and changed, on every instance', async () => {
  const act = fc.record({
    what: fc.constantFrom('insert', 'change'),
    owner: fc.constantFrom(...owners),
    place: fc.constantFrom(...places),
    pick: fc.nat(),
  });
  const step = fc.record({
    acts: fc.array(act, { minLength: 0, maxLength: 4 }),
    inOne: fc.boolean(),
    readers: fc.constantFrom([], [0], [1], [0, 1]),
  });
  const run = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 20 }), async (steps) => {
    const books = await openTestDatabase(owners, 1000, 1000);
    try {
      const instances = [createJobListCache(1_000_000), createJobListCache(1_000_000)];
      for (const { acts, inOne, readers } of steps) {
        const carryOut = async (db: Db, { what, owner, place, pick }: (typeof acts)[number]) => {
          const stored = what === 'change' ? await jobIds(db, owner) : [];
          const jobId = stored[pick % Math.max(1, stored.length)];
          await (jobId === undefined ? insert(db, owner, place) : change(db, jobId));
        };
        const all = async (db: Db) => {
          for (const one of acts) await carryOut(db, one);
        };
        if (inOne) await inTransaction(books.db, all);
        else await all(books.db);
        for (const reader of readers) await assertRight(books.db, instances[reader] as JobListCache);
      }
      for (const lists of instances) await assertRight(books.db, lists);
    } finally {
      await books.close();
    }
  });
  await fc.assert(run, { numRuns: 8 });
});

describe('lists that are kept', () => {
  let books: TestDatabase;
  before(async () => {
    books = await openTestDatabase(owners, 1000, 1000);
    for (let n = 0; n < 40; n++) await insert(books.db, '1');
  });
  after(() => books.close());

  test('no change is missed of those that are written at once, whenever it is looked', async () => {
    const { db } = books;
    const lists = createJobListCache(1_000_000);
    const left = await jobIds(db, '1');
    let writing = true;
    const read = async () => {
      const kept = await lists.next(db, { owner: '1' }, 0, 1000);
      const whole = await readJobPage(db, { owner: '1' }, 0, 1000);
      if (kept.version === whole.version) assert.deepEqual(kept, whole);
    };
    const reader = (async () => {
      while (writing) {
        await read();
        // On SQLite a read waits for nothing, and nobody else would come to write.
        await sleep(1);
      }
    })();
    const writer = async () => {
      for (let jobId = left.pop(); jobId !== undefined; jobId = left.pop()) {
        const one = jobId;
        await inTransaction(db, async (tx) => {
          await change(tx, one);
          // So that others come in between, and look, before it is committed.
          await sleep(Math.random() * 10);
          if (Math.random() < 0.3) await insert(tx, '1');
        });
      }
    };
    await Promise.all([writer(), writer(), writer(), writer()]).finally(() => {
      writing = false;
    });
    await reader;
    assert.deepEqual(await lists.next(db, { owner: '1' }, 0, 1000), await readJobPage(db, { owner: '1' }, 0, 1000));
  });

  test('takes one query, changed or not; if too much has changed, the page is read again', async () => {
    const { db, statements } = recordStatements(books.db);
    const lists = createJobListCache(1_000_000);
    const [jobId = ''] = await jobIds(books.db, '1');
    const countQueries = async () => {
      const before = statements.length;
      const page = await lists.next(db, { owner: '1' }, 0, 1000);
      const count = statements.length - before;
      assert.deepEqual(page, await readJobPage(books.db, { owner: '1' }, 0, 1000));
      return { count, version: page.version };
    };
    const { count, version } = await countQueries();
    assert.equal(count, 1);
    assert.deepEqual(await countQueries(), { count: 1, version });
    await change(books.db, jobId);
    assert.deepEqual(await countQueries(), { count: 1, version: String(Number(version) + 1) });
    for (let n = 0; n < 100; n++) await change(books.db, jobId);
    assert.equal((await countQueries()).count, 1);
    for (let n = 0; n < 101; n++) await change(books.db, jobId);
    assert.equal((await countQueries()).count, 2);
    assert.equal((await countQueries()).count, 1);
  });

  test('reads a page again that was evicted for lack of space', async () => {
    const { db, statements } = recordStatements(books.db);
    const lists = createJobListCache(1);
    for (let n = 0; n < 2; n++) {
      const page = await lists.next(db, { owner: '1' }, 0, 1000);
      assert.deepEqual(page, await readJobPage(books.db, { owner: '1' }, 0, 1000));
    }
    assert.ok(statements.every((statement) => statement.includes('string_agg')));
  });

  test('reads a page again if the version has gone back, because the database was restored', async () => {
    const lists = createJobListCache(1_000_000);
    const { version } = await lists.next(books.db, { owner: '1' }, 0, 1000);
    const before = Number(version) - 5;
    await books.db.updateTable('users').set({ jobs_version: before }).where('id', '=', '1').execute();
    await books.db.updateTable('jobs').set({ public_json: '{"id":0}' }).where('owner', '=', '1').execute();
    const page = await lists.next(books.db, { owner: '1' }, 0, 1000);
    assert.deepEqual(page, await readJobPage(books.db, { owner: '1' }, 0, 1000));
    assert.equal(page.version, String(before));
  });
});
