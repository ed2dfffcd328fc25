import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import Sqlite from 'better-sqlite3';
import type { Db } from '../../../src/store/database/handle.ts';
import { migrate } from '../../../src/store/database/migrations.ts';
import { openSqlite } from '../../../src/store/database/sqlite.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';

let folder: string;
let db: Db;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-version-'));
  db = openSqlite(join(folder, 'x.db'));
  await migrate(db);
});
afterEach(async () => {
  await db.destroy();
  rmSync(folder, { recursive: true });
});

const version = () => db.backend.commitVersion?.();
const insertUser = (id: string) =>
  inTransaction(db, (tx) => tx.insertInto('users').values({ id, role: 'user', created_at: 0 }).execute());

test('the version is the same until something is committed', async () => {
  const first = version();
  await nextTurn();
  assert.equal(version(), first);
});

test('the version changes with a commit of this process, also within a turn', async () => {
  let lastRead: unknown;
  let isReading = true;
  const readEachTurn = () => {
    lastRead = version();
    if (isReading) setImmediate(readEachTurn);
  };
  readEachTurn();
  for (let index = 0; index < 20; index++) {
    const versionAfter = await insertUser(String(index)).then(version);
    assert.notEqual(versionAfter, lastRead);
  }
  isReading = false;
});

test('the version changes with a commit of another process, in the next turn at the latest', async () => {
  const before = version();
  const other = new Sqlite(join(folder, 'x.db'));
  other.prepare("insert into users (id, role, created_at) values ('9', 'user', 0)").run();
  other.close();
  await nextTurn();
  assert.notEqual(version(), before);
});
