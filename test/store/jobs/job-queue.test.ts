import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Db, Tx } from '../../../src/store/database/handle.ts';
import {
  claimDueJob,
  countJobsInEngine,
  listJobsToCancel,
  listOwnersOfCancelledSubmissions,
  listUnfinishedJobs,
  listWaitingOwners,
} from '../../../src/store/jobs/job-queue.ts';
import { countJobsByState } from '../../../src/store/systems/backlog.ts';
import { countUnfinishedJobs } from '../../../src/store/systems/systems.ts';
import { storeManyJobs } from '../../support/many-jobs.ts';
import { explainStatement, recordStatements } from '../../support/statements.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

describe('queries of the workers', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase(['1'], 1000, 1000);
    await storeManyJobs(database.db, { owner: '1', hpc: 'sys', project: 'proj', count: 20_000 });
    // Nearly all jobs have ended, as after years of service.
    await database.db.updateTable('jobs').set({ state: 'ended' }).where('id', '>', 20).execute();
    await sql`analyze`.execute(database.db);
  });
  after(() => database.close());

  const queries: [name: string, run: (db: Db) => Promise<unknown>][] = [
    ['claimDueJob', (db) => claimDueJob(db as Tx, 'sys', '1', { now: 0, excludedIds: [1, 2], onlyCancelled: false })],
    [
      'claimDueJob of cancelled jobs',
      (db) => claimDueJob(db as Tx, 'sys', '1', { now: 0, excludedIds: [1, 2], onlyCancelled: true }),
    ],
    ['listWaitingOwners', (db) => listWaitingOwners(db, 'sys', [1, 2])],
    ['countJobsInEngine', (db) => countJobsInEngine(db, 'sys', ['1', '2'])],
    ['listUnfinishedJobs', (db) => listUnfinishedJobs(db, 'sys')],
    ['listJobsToCancel', (db) => listJobsToCancel(db, 'sys')],
    ['listOwnersOfCancelledSubmissions', (db) => listOwnersOfCancelledSubmissions(db, 'sys')],
    ['countUnfinishedJobs', (db) => countUnfinishedJobs(db)],
    ['countJobsByState', (db) => countJobsByState(db, 0)],
  ];
  for (const [name, run] of queries) {
    test(`${name} uses a partial index of unfinished jobs`, async () => {
      const { db, statements } = recordStatements(database.db);
      await run(db);
      assert.equal(statements.length, 1);
      const { text } = await explainStatement(database.db, statements[0] ?? '');
      assert.match(text, /jobs_unfinished|jobs_to_cancel/);
      assert.doesNotMatch(text, /jobs_by_|Seq Scan on jobs|SCAN jobs$/m);
    });
  }
});
