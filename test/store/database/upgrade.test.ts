import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { connectDatabase, openDatabase } from '../../../src/store/database/database.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { migrate } from '../../../src/store/database/migrations.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import { insertJob } from '../../../src/store/jobs/jobs.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { getAccounts } from '../../support/accounts.ts';
import { databaseSettings, postgresTest } from '../../support/database.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../../support/test-database.ts';
import { undoMigrations } from './undo-migrations.ts';

const isPostgres = process.env.BURSAR_TEST_DATABASE === 'postgres';

async function storeJob({ db }: TestDatabase, jobId: string) {
  const project = await findProject(db, 'sys', 'proj');
  assert.ok(project);
  const command = { kind: 'line', line: 'true' } as const;
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
  const job = { jobId, owner: '1', project, request, units: 1, input: null, acceptedAt: 1 };
  const { id } = await inTransaction(db, (tx) => insertJob(tx, job, publicColumns('QUEUED'), {}));
  return { id, project };
}

/** Stores a job with this many holds. All but the last one are resolved. */
async function insertHolds(database: TestDatabase, count: number): Promise<void> {
  const { db } = database;
  const { id, project } = await storeJob(database, 'HELD');
  const { timePool, timeCap, spacePool, spaceCap } = await getAccounts(db, project, '1');
  const accounts = sql.join([timePool, timeCap, spacePool, spaceCap].map((account) => sql`${sql.lit(account.id)}`));
  await sql`insert into holds (job, attempt, time_pool, time_cap, space_pool, space_cap, time_seconds, space_bytes, created_at)
    with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${sql.lit(count)})
    select ${sql.lit(id)}, n, ${accounts}, 0, 0, 1 from numbers`.execute(db);
  await sql`insert into resolutions (hold_id, kind, time_seconds, space_bytes, rule, at)
    select id, 'released', 0, 0, 'test', 1 from holds where attempt < ${sql.lit(count)}`.execute(db);
}

test('counting the open holds takes time in proportion to all holds', async (t) => {
  const database = await openTestDatabase(['1'], 1000, 1000);
  t.after(() => database.close());
  await insertHolds(database, 40_000);
  await undoMigrations(database.db, '0011');
  if (isPostgres) {
    // A comparison of each hold with each resolution would take much longer, and these do not fit into the memory.
    const name = sql.id(database.folder.split('/').at(-1) ?? '');
    await sql`alter database ${name} set work_mem = '64kB'`.execute(database.db);
    await sql`alter database ${name} set statement_timeout = '5s'`.execute(database.db);
  }
  const settings = { ...databaseSettings(database.folder), statementTimeoutSeconds: 0 };
  const db = await openDatabase(settings, database.folder);
  t.after(() => db.destroy());
  const rows = await db.selectFrom('accounts').select('open_holds').execute();
  assert.deepEqual(
    rows.map(({ open_holds }) => open_holds),
    [1, 1, 1, 1],
  );
  const { problems } = await verifyLedger(db);
  assert.deepEqual(
    problems.filter((problem) => problem.startsWith('account')),
    [],
  );
});

postgresTest('the migrations at start have no statement timeout', async (t) => {
  const database = await openTestDatabase([], 1, 1);
  t.after(() => database.close());
  await undoMigrations(database.db, '0011');
  const other = connectDatabase(databaseSettings(database.folder), database.folder);
  t.after(() => other.destroy());
  let migrated: Promise<Db> | undefined;
  await other.transaction().execute(async (tx) => {
    await sql`lock table users in access exclusive mode`.execute(tx);
    const settings = { ...databaseSettings(database.folder), statementTimeoutSeconds: 0.5 };
    migrated = openDatabase(settings, database.folder);
    await Promise.race([migrated, sleep(2000)]);
  });
  await (await migrated)?.destroy();
});

test('an upgrade lets the dispatcher end the jobs first that were cancelled while they waited', async (t) => {
  const database = await openTestDatabase(['1'], 1000, 1000);
  t.after(() => database.close());
  const { db } = database;
  const jobs = [
    { state: 'accepted', cancelledAt: null },
    { state: 'accepted', cancelledAt: 5 },
    { state: 'submitting', cancelledAt: 5 },
    { state: 'queued', cancelledAt: 5 },
  ] as const;
  for (const [index, { state, cancelledAt }] of jobs.entries()) {
    const { id } = await storeJob(database, `OLD-${index}`);
    const columns = { state, cancel_requested_at: cancelledAt, due_at: 7 };
    await db.updateTable('jobs').set(columns).where('id', '=', id).execute();
  }
  await undoMigrations(db, '0011');
  await migrate(db);
  const rows = await db.selectFrom('jobs').select('due_at').orderBy('id').execute();
  assert.deepEqual(
    rows.map((row) => row.due_at),
    [7, 0, 0, 7],
  );
});

test('an upgrade stores who has disabled a webhook, and the class of the last result of a delivery', async (t) => {
  const database = await openTestDatabase(['1'], 1000, 1000);
  t.after(() => database.close());
  const { db } = database;
  await undoMigrations(db, '0011');
  const disabledTimes = [null, 50, 60];
  for (const [index, disabledAt] of disabledTimes.entries()) {
    await sql`insert into webhooks (user_id, url, description, secret, former_until, created_at, failures, pause_until, disabled_at)
      values ('1', ${`https://host/${index}`}, '', 'x', 0, 1, 0, 0, ${disabledAt})`.execute(db);
  }
  const { rows: webhooks } = await sql<{ id: number }>`select id from webhooks order by id`.execute(db);
  const [, byBursar, byAdministrator] = webhooks.map(({ id }) => id);
  const entries = [
    // The owner has enabled the webhook since.
    { id: byBursar, at: 40 },
    { id: byAdministrator, at: 60 },
  ];
  for (const { id, at } of entries) {
    await sql`insert into audit (actor, act, subject, details, at)
      values ('admin', 'webhook.disable', ${`1/${id}`}, '{}', ${at})`.execute(db);
  }
  for (const [lastAt, status, error] of [
    [null, null, null],
    [9, 204, null],
    [9, 404, 'The endpoint answered 404.'],
    [9, null, 'connect ECONNREFUSED 10.0.0.1:22'],
  ]) {
    await sql`insert into deliveries (webhook_id, state, created_at, due_at, tries, lease_until, last_at, last_status, last_error)
      values (${byBursar}, 'failed', 1, 1, 1, 0, ${lastAt}, ${status}, ${error})`.execute(db);
  }
  await migrate(db);
  const disabledBy = await db.selectFrom('webhooks').select('disabled_by').orderBy('id').execute();
  assert.deepEqual(
    disabledBy.map((row) => row.disabled_by),
    [null, 'bursar', 'administrator'],
  );
  const results = await db.selectFrom('deliveries').select(['last_result', 'last_error']).orderBy('id').execute();
  assert.deepEqual(
    results.map((row) => [row.last_result, row.last_error]),
    [
      [null, null],
      ['2xx', null],
      ['4xx', 'The endpoint did not accept the event.'],
      ['unreachable', 'The endpoint could not be reached.'],
    ],
  );
});
