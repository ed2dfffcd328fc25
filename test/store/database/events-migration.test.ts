import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Kysely, sql } from 'kysely';
import { initialSchema } from '../../../src/store/database/migrations/0001-initial-schema.ts';
import { eventsAndWebhooks } from '../../../src/store/database/migrations/0003-events-and-webhooks.ts';
import { openSqlite } from '../../../src/store/database/sqlite.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { getEventRange, insertEvent, listEventsAfter, listJobEvents } from '../../../src/store/events/events.ts';

test('the migration numbers existing events and marks them as expired', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-migration-'));
  const db = openSqlite(join(folder, 'old.db'));
  const empty = db as unknown as Kysely<unknown>;
  await initialSchema(db.backend.dialect).up(empty);
  await sql`insert into users (id, role, created_at) values ('1', 'user', 0), ('2', 'user', 0)`.execute(db);
  for (const user of ['1', '2', '1', '1']) {
    await sql`insert into events (user_id, job, kind, data, at) values (${user}, null, 'job.ended', '{}', 5)`.execute(
      db,
    );
  }
  await eventsAndWebhooks(db.backend.dialect).up(empty);
  assert.deepEqual(await getEventRange(db, '1'), { last: 3, lastExpired: 3 });
  assert.deepEqual(await getEventRange(db, '2'), { last: 1, lastExpired: 1 });
  await inTransaction(db, (tx) =>
    insertEvent(tx, { userId: '1', job: null, kind: 'quota.threshold', data: {}, at: 6 }),
  );
  assert.deepEqual(
    (await listEventsAfter(db, '1', 0, 10)).map(({ seq }) => seq),
    [4],
  );
  const rows = await db.selectFrom('events').select(['user_id', 'seq']).orderBy('id').execute();
  assert.deepEqual(
    rows.map(({ user_id, seq }) => `${user_id}:${seq}`),
    ['1:1', '2:1', '1:2', '1:3', '1:4'],
  );
  assert.deepEqual(await listJobEvents(db, 1), []);
  await db.destroy();
  rmSync(folder, { recursive: true });
});
