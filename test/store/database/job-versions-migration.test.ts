import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createJobListCache } from '../../../src/services/jobs/job-list-cache.ts';
import { getSchemaStatus, migrate } from '../../../src/store/database/migrations.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import { readJobPage } from '../../../src/store/jobs/job-lists.ts';
import { findJob, insertJob, updateStatus } from '../../../src/store/jobs/jobs.ts';
import { findCurrentAccounts } from '../../../src/store/ledger/accounts.ts';
import { reserve } from '../../../src/store/ledger/ledger.ts';
import { openTestDatabase, publicColumns } from '../../support/test-database.ts';
import { undoMigrations } from './undo-migrations.ts';

test('migrations count the unfinished jobs, and cached lists of jobs from before the job versions stay up to date', async () => {
  const database = await openTestDatabase(['1'], 1000, 1000);
  const { db } = database;
  try {
    const project = await findProject(db, 'sys', 'proj');
    assert.ok(project);
    const command = { kind: 'line', line: 'true' } as const;
    const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
    const insert = (jobId: string) => {
      const job = { jobId, owner: '1', project, request, units: 1, input: null, acceptedAt: 1 };
      return inTransaction(db, (tx) => insertJob(tx, job, publicColumns('QUEUED'), {}));
    };
    const { id } = await insert('OLD-1');
    const accounts = await findCurrentAccounts(db, project.id, '1', 2);
    assert.ok(accounts);
    const note = { actor: '1', reason: 'test', at: 1 };
    await inTransaction(db, (tx) => reserve(tx, { id, attempt: 1 }, accounts, { timeSeconds: 5, spaceBytes: 5 }, note));
    for (const jobId of ['OLD-2', 'OLD-3']) await insert(jobId);
    await undoMigrations(db, '0006');
    await migrate(db);
    assert.deepEqual((await getSchemaStatus(db)).pending, []);
    const counts = [
      await db.selectFrom('users').select('unfinished_jobs as count').where('id', '=', '1').execute(),
      await db.selectFrom('accounts').select('open_holds as count').where('project_id', '=', project.id).execute(),
    ];
    assert.deepEqual(
      counts.map((rows) => rows.map(({ count }) => count)),
      [[3], [1, 1, 1, 1]],
    );

    const lists = createJobListCache(1_000_000);
    const assertCurrent = async (version: string) => {
      const page = await lists.readPage(db, { owner: '1' }, 0, 1000);
      assert.deepEqual(page, await readJobPage(db, { owner: '1' }, 0, 1000));
      assert.equal(page.version, version);
    };
    await assertCurrent('3');
    const job = await findJob(db, 'OLD-2');
    assert.ok(job);
    const changed = { ...publicColumns('QUEUED')(job.id), json: '{"id":2,"changed":true}' };
    await inTransaction(db, (tx) => updateStatus(tx, job, { state: 'queued' }, changed));
    await assertCurrent('4');
    await insert('NEW-1');
    await assertCurrent('5');
    const rows = await db.selectFrom('jobs').select('version').orderBy('id').execute();
    assert.deepEqual(
      rows.map(({ version }) => version),
      [0, 4, 0, 5],
    );
  } finally {
    await database.close();
  }
});
