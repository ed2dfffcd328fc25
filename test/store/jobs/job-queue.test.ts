import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Db, Tx } from '../../../src/store/database/handle.ts';
import {
  claimDueJobs,
  findNextDueAt,
  listJobsToCancel,
  listUnfinishedJobs,
} from '../../../src/store/jobs/job-queue.ts';
import { countUnfinishedJobs } from '../../../src/store/systems/systems.ts';
import { storeManyJobs } from '../../support/many-jobs.ts';
import { explainStatement, recordStatements } from '../../support/statements.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

describe('what the lifecycle looks for', () => {
  let books: TestDatabase;
  before(async () => {
    books = await openTestDatabase(['1'], 1000, 1000);
    await storeManyJobs(books.db, { owner: '1', hpc: 'sys', project: 'proj', count: 20_000 });
    // Nearly all have ended, as on a system that has served for years.
    await books.db.updateTable('jobs').set({ state: 'ended' }).where('id', '>', 20).execute();
    await sql`analyze`.execute(books.db);
  });
  after(() => books.close());

  const looks: [what: string, look: (db: Db) => Promise<unknown>][] = [
    ['jobs to submit', (db) => claimDueJobs(db as Tx, 'sys', { now: 0, limit: 10, excludedIds: [] })],
    ['when the next one is due', (db) => findNextDueAt(db, 'sys', [])],
    ['jobs that have not ended', (db) => listUnfinishedJobs(db, 'sys')],
    ['jobs to cancel', (db) => listJobsToCancel(db, 'sys')],
    ['how many there are', (db) => countUnfinishedJobs(db)],
  ];
  for (const [what, look] of looks) {
    test(`${what}: found by an index that holds only what has not ended`, async () => {
      const { db, statements } = recordStatements(books.db);
      await look(db);
      assert.equal(statements.length, 1);
      const { text } = await explainStatement(books.db, statements[0] ?? '');
      assert.match(text, /jobs_unfinished|jobs_to_cancel/);
      assert.doesNotMatch(text, /jobs_by_system|Seq Scan on jobs/);
    });
  }
});
