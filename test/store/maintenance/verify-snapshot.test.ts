import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import Sqlite from 'better-sqlite3';
import { sql } from 'kysely';
import { backupName, removeOldBackups } from '../../../src/store/maintenance/backup-folder.ts';
import { createTableDigest, findDifferentTables } from '../../../src/store/maintenance/copy-tables.ts';
import { takeSnapshot, verifySnapshot } from '../../../src/store/maintenance/snapshot.ts';
import { postgresTest } from '../../support/database.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

describe('the verification of a backup', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-verify-'));
  const file = join(folder, 'good.db');
  let database: TestDatabase;

  before(async () => {
    database = await openTestDatabase(['301330', '301331'], 1000, 1000);
    await takeSnapshot(database.db, file, { verify: true });
  });
  after(async () => {
    await database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Changes a copy of the backup behind the back of Bursar. */
  function damage(name: string, statements: string): string {
    const copy = join(folder, name);
    writeFileSync(copy, readFileSync(file));
    const sqlite = new Sqlite(copy);
    sqlite.exec(statements);
    sqlite.close();
    return copy;
  }

  test('proves the ledger and the audit trail, and leaves no files', async () => {
    const { rows, ledger, audit } = await verifySnapshot(file);
    assert.ok(rows > 0);
    assert.deepEqual([ledger.balanced, ledger.problems, audit.intact], [true, [], true]);
    assert.ok(ledger.entries > 0);
    assert.deepEqual(readdirSync(folder), ['good.db']);
  });

  postgresTest('a backup is right while ids are assigned, which no transaction hides', async () => {
    const busy = join(folder, 'busy.db');
    let isOver = false;
    const assign = async () => {
      const nextId = sql`select nextval(pg_get_serial_sequence('entries', 'id'))`;
      while (!isOver) await nextId.execute(database.db);
    };
    const assigning = Promise.all([assign(), assign(), assign(), assign()]);
    try {
      assert.equal((await takeSnapshot(database.db, busy, { verify: true })).ledger.balanced, true);
    } finally {
      isOver = true;
      await assigning;
    }
    rmSync(busy);
  });

  test('finds an account that its entries do not explain', async () => {
    const { ledger } = await verifySnapshot(
      damage('ledger.db', 'update accounts set posted = posted + 1 where id = 1'),
    );
    assert.equal(ledger.balanced, false);
    assert.match(ledger.problems.join(), /account 1/);
  });

  test('finds a record of the audit trail that was inserted', async () => {
    const { audit } = await verifySnapshot(
      damage(
        'audit.db',
        `insert into audit (actor, action, subject, details, at, hash) values ('x', 'x', 'x', '{}', 1, 'x')`,
      ),
    );
    assert.equal(audit.intact, false);
  });

  test('rejects a damaged file', async () => {
    const bytes = readFileSync(file);
    // Beyond the first page, which has the schema.
    bytes.fill(0x55, 4096, bytes.length);
    const broken = join(folder, 'broken.db');
    writeFileSync(broken, bytes);
    await assert.rejects(verifySnapshot(broken), { code: 'invalid_argument' });
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.startsWith('.')),
      [],
    );
  });

  test('leaves no backup if it fails', async () => {
    const { db } = database;
    const target = join(folder, 'missing', 'backup.db');
    await assert.rejects(takeSnapshot(db, target, { verify: true }));
    assert.ok(!existsSync(target) && !existsSync(`${target}.partial`));
  });

  test('does not mix with another backup to the same file', async () => {
    const target = join(folder, 'same.db');
    const results = await Promise.allSettled([1, 2].map(() => takeSnapshot(database.db, target, { verify: true })));
    assert.deepEqual(results.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    await verifySnapshot(target);
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.includes('partial')),
      [],
    );
  });

  test('rejects a database in use, whose last changes are in another file', async () => {
    const inUse = join(folder, 'in-use.db');
    copyFileSync(file, inUse);
    writeFileSync(`${inUse}-wal`, 'changes');
    await assert.rejects(verifySnapshot(inUse), { code: 'invalid_argument', message: /in use, not a backup/ });
  });
});

describe('the digest of a table', () => {
  const digest = (rows: Record<string, unknown>[], lastId = 0) => {
    const table = createTableDigest(['a', 'b']);
    for (const row of rows) table.add(row);
    return table.finish(lastId);
  };
  const one = { a: 1, b: 'x' };
  const two = { a: 2, b: null };

  test('does not depend on the order of rows and columns', () => {
    assert.equal(digest([one, two]), digest([two, { b: 'x', a: 1 }]));
    const reordered = createTableDigest(['b', 'a']);
    reordered.add(one);
    assert.equal(reordered.finish(0), digest([one]));
  });

  test('depends on every value, on repeated rows and on the last id', () => {
    const digests = [
      digest([]),
      digest([one]),
      digest([one, one]),
      digest([one, two]),
      digest([one, two], 7),
      digest([{ a: '1', b: 'x' }]),
      digest([{ a: 1, b: 'x ' }]),
      digest([{ a: 2, b: '' }, one]),
      digest([{ a: Buffer.from('1'), b: 'x' }]),
      digest([{ a: Buffer.from('2'), b: 'x' }]),
    ];
    assert.equal(new Set(digests).size, digests.length);
  });

  test('names the tables that differ', () => {
    const tables = (entries: Record<string, string>) => new Map(Object.entries(entries));
    assert.deepEqual(findDifferentTables(tables({ a: '1', b: '2' }), tables({ a: '1', b: '3', c: '4' })), ['b', 'c']);
  });
});

describe('a folder of backups', () => {
  const day = (n: number) => backupName(Date.UTC(2026, 0, n, 3, 4, 5));

  test('keeps the newest, and every file that is not a backup', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-backups-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    assert.equal(day(2), 'bursar-20260102T030405Z');
    const others = [
      'bursar.db',
      `${day(1)}.db.old`,
      `my-${day(1)}.db`,
      `${day(1)}`,
      'bursar-20260101.db',
      // Another backup may be writing this one.
      `${day(3)}.db.partial`,
      // From a time when the clock was wrong.
      `${day(9)}.db`,
    ];
    const interrupted = `${day(1)}.db.partial`;
    for (const name of [...others, ...[1, 2, 3, 4].map((n) => `${day(n)}.db`), interrupted])
      writeFileSync(join(folder, name), '');
    utimesSync(join(folder, interrupted), 0, 0);
    const remove = (keep: number, newest = `${day(4)}.db`, extension = '.db') =>
      removeOldBackups(folder, { newest, keep, extension });
    assert.deepEqual(await remove(2), [`${day(1)}.db`, `${day(2)}.db`]);
    assert.deepEqual(readdirSync(folder).sort(), [...others, `${day(3)}.db`, `${day(4)}.db`].sort());
    assert.deepEqual(await remove(5), []);
    mkdirSync(join(folder, day(5)));
    assert.deepEqual(await remove(1, day(5), ''), [day(1)]);
    await assert.rejects(remove(0), { code: 'invalid_argument' });
  });
});
