import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { toHpcSystems } from '../../../src/config/hpc-systems.ts';
import { listJobs } from '../../../src/services/jobs/read-jobs.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import type { JobFilter } from '../../../src/store/jobs/job-filters.ts';
import { type JobPage, readJobPage } from '../../../src/store/jobs/job-lists.ts';
import { findJob, insertJob, updateStatus } from '../../../src/store/jobs/jobs.ts';
import { isLongRun } from '../../support/long-run.ts';
import { storeManyJobs } from '../../support/many-jobs.ts';
import { explainStatement, recordStatements } from '../../support/statements.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../../support/test-database.ts';

const place = { hpc: 'sys', project: 'proj' };
const scopes: JobFilter[] = [{}, { hpc: 'sys' }, place].flatMap((scope) => [scope, { ...scope, owner: '1' }]);
const filters: JobFilter[] = [
  {},
  { stage: 'RUNNING' },
  { failed: true },
  { failed: false },
  { terminal: true },
  { terminal: false },
  { since: 9_000_000 },
  { title: 'title 7' },
  { stage: 'SUCCESSFUL', title: 'title 7', failed: false, terminal: true, since: 1 },
  { tags: ['common'] },
  { tags: ['seven'] },
  { tags: ['common', 'seven'] },
  { tags: ['seven'], terminal: true, since: 1 },
  { tags: ['common'], terminal: false },
  { tags: ['common'], failed: true },
  { tags: ['common', 'seven', 'common', 'seven', 'common'] },
];

/** Tags every job, and one in 50 with a second tag. */
async function tagJobs(db: Db): Promise<void> {
  await sql`insert into job_tags (tag, job, owner)
    select 'common', id, owner from jobs union all select 'seven', id, owner from jobs where id % 50 = 7`.execute(db);
}
const tagsOf = ({ id }: { id: number }) => ['common', ...(id % 50 === 7 ? ['seven'] : [])];

/** The record ids of a page. */
const idsOf = ({ json }: JobPage): number[] => JSON.parse(`[${json}]`).map(({ id }: { id: number }) => id);

const deps = (db: Db, { config }: Pick<TestDatabase, 'config'>) => ({ db, systems: toHpcSystems(config) });

describe('job lists', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase(['1', '2'], 1000, 1000);
    for (const owner of ['1', '2', '1']) await storeManyJobs(database.db, { ...place, owner, count: 4000 });
    await tagJobs(database.db);
    await sql`analyze`.execute(database.db);
  });
  after(() => database.close());

  for (const scope of scopes) {
    for (const filter of filters) {
      test(`a page of ${JSON.stringify({ ...scope, ...filter })} is read by an index`, async () => {
        const { db, statements } = recordStatements(database.db);
        const page = await readJobPage(db, { ...scope, ...filter }, 0, 10);
        assert.equal(idsOf(page).length, 10);
        for (const statement of statements) {
          const { readsAll, sorts, text } = await explainStatement(database.db, statement);
          assert.ok(!readsAll, text);
          // Jobs with the same title, or with more than two tags, are few, so they may be sorted.
          if (filter.title === undefined && (filter.tags ?? []).length <= 2) assert.ok(!sorts, text);
        }
      });
    }
  }

  test('filters return exactly the matching jobs', async () => {
    const all = await database.db.selectFrom('jobs').selectAll().orderBy('id').execute();
    for (const scope of scopes) {
      for (const filter of filters) {
        const found = await readJobPage(database.db, { ...scope, ...filter }, 0, all.length);
        const expected = all.filter(
          (job) =>
            (scope.owner === undefined || job.owner === scope.owner) &&
            (filter.stage === undefined || job.stage === filter.stage) &&
            (filter.title === undefined || job.title === filter.title) &&
            (filter.failed === undefined || (job.failed === 1) === filter.failed) &&
            (filter.terminal === undefined || (job.terminal === 1) === filter.terminal) &&
            (filter.since === undefined || job.acceptedAt >= filter.since) &&
            (filter.tags ?? []).every((tag) => tagsOf(job).includes(tag)),
        );
        assert.deepEqual(
          idsOf(found),
          expected.map((job) => job.id),
        );
      }
    }
  });

  test('a job with the longest title fits into the index of pages', async () => {
    // 256 characters of up to six bytes, and the other fields. They cannot be compressed.
    const json = JSON.stringify({ title: randomBytes(1500).toString('base64') });
    const { db } = database;
    const job = await db.selectFrom('jobs').select(['id', 'publicJson']).limit(1).executeTakeFirstOrThrow();
    const store = (publicJson: string) => db.updateTable('jobs').set({ publicJson }).where('id', '=', job.id).execute();
    await store(json);
    assert.equal((await readJobPage(db, { owner: '1' }, job.id - 1, 1)).json, json);
    await store(job.publicJson);
  });

  test('"since" finds a job that was accepted a little later than one with a larger id', async () => {
    const at = 4_000_000_000_000;
    const numbers = [at + 5000, at + 4000, at + 3000].map((acceptedAt, index) => ({
      acceptedAt,
      id: 11_998 + index,
    }));
    for (const { id, acceptedAt } of numbers) {
      await database.db.updateTable('jobs').set({ acceptedAt }).where('id', '=', id).execute();
    }
    const found = await readJobPage(database.db, { since: at }, 0, 10);
    assert.deepEqual(idsOf(found), [11_998, 11_999, 12_000]);
  });

  test('a page takes three statements, with a hundred jobs stored and with thousands', async () => {
    const few = await openTestDatabase(['1'], 1000, 1000);
    try {
      await storeManyJobs(few.db, { ...place, owner: '1', count: 100 });
      const counts: number[] = [];
      for (const { db, config } of [few, database]) {
        const recorded = recordStatements(db);
        await (await listJobs(deps(recorded.db, { config }), '1', place, { limit: 50 })).body();
        counts.push(recorded.statements.length);
      }
      // The project, the version, and the page.
      assert.deepEqual(counts, [3, 3]);
    } finally {
      await few.close();
    }
  });

  test('reads a short list with one query beside the version, and a long one in chunks', async () => {
    const recorded = recordStatements(database.db);
    const lists = deps(recorded.db, database);
    const body = await (await listJobs(lists, '1', {}, { title: 'title 3' })).body();
    assert.equal(recorded.statements.length, 2);
    assert.ok('json' in body);
    assert.equal(JSON.parse(body.json).length, 160);

    const long = await (await listJobs(lists, undefined, {}, {})).body();
    assert.ok('chunks' in long);
    const chunks: string[] = [];
    for await (const chunk of long.chunks) chunks.push(chunk);
    assert.ok(chunks.every((chunk) => chunk.length < 1_000_000));
    assert.equal(JSON.parse(chunks.join('')).length, 12_000);
  });
});

test('paging returns every job once while jobs are inserted and changed', async () => {
  const step = fc.oneof(fc.constant('insert'), fc.constant('end'), fc.constant('page'));
  const run = fc.asyncProperty(
    fc.integer({ min: 1, max: 12 }),
    fc.integer({ min: 1, max: 5 }),
    fc.array(step, { maxLength: 40 }),
    async (stored, limit, steps) => {
      const database = await openTestDatabase(['1'], 1000, 1000);
      try {
        for (let index = 0; index < stored; index++) await insert(database.db);
        const seen: number[] = [];
        let after: number | undefined = 0;
        const page = async () => {
          if (after === undefined) return;
          const query = { after, limit };
          const body = await (await listJobs(deps(database.db, database), '1', {}, query)).body();
          assert.ok('json' in body);
          const ids = JSON.parse(body.json).map((job: { id: number }) => job.id);
          assert.ok(ids.length === limit || (ids.length < limit && body.nextAfterId === undefined));
          seen.push(...ids);
          after = body.nextAfterId;
        };
        for (const act of steps) {
          if (act === 'insert') await insert(database.db);
          else if (act === 'end') await endOneJob(database.db);
          else await page();
        }
        while (after !== undefined) await page();
        assert.deepEqual(
          seen,
          [...new Set(seen)].sort((a, b) => a - b),
        );
        for (let id = 1; id <= stored; id++) assert.ok(seen.includes(id), `job ${id} was missed`);
      } finally {
        await database.close();
      }
    },
  );
  await fc.assert(run, { numRuns: isLongRun ? 25 : 10 });
});

let jobNumber = 0;

async function insert(db: Db): Promise<void> {
  const project = await findProject(db, 'sys', 'proj');
  assert.ok(project);
  const command = { kind: 'line', line: 'true' } as const;
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
  const job = { jobId: `PAGED-${jobNumber++}`, owner: '1', project, request, units: 1, input: null, acceptedAt: 1 };
  await inTransaction(db, (tx) => insertJob(tx, job, publicColumns('QUEUED'), {}));
}

async function endOneJob(db: Db): Promise<void> {
  const row = await db.selectFrom('jobs').select('jobId').where('state', '=', 'accepted').limit(1).executeTakeFirst();
  const job = row && (await findJob(db, row.jobId));
  if (!job) return;
  const end = { outcome: 'failed', reason: '', exitCode: 1, startedAt: 1, endedAt: 2, elapsedSeconds: 1 } as const;
  await inTransaction(db, (tx) => updateStatus(tx, job, { state: 'ended', ...end }, publicColumns('FAILED')(job.id)));
}
