import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import Sqlite, { type Database } from 'better-sqlite3';
import { createGroupWriter, type GroupWriter } from '../../../src/store/database/group-commit.ts';

// On a real SQLite file with two connections: one writes, the other sees only committed data.
describe('group commit', () => {
  let folder: string;
  let writer: Database;
  let reader: Database;
  let group: GroupWriter;
  let commits: number;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-group-'));
    writer = new Sqlite(join(folder, 'x.db'), {
      verbose: (sql) => {
        if (sql === 'commit') commits += 1;
      },
    });
    writer.pragma('journal_mode = WAL');
    writer.exec(`create table parents (id integer primary key);
      create table notes (text text, parent integer references parents (id) deferrable initially deferred)`);
    writer.pragma('foreign_keys = ON');
    reader = new Sqlite(join(folder, 'x.db'), { readonly: true });
    commits = 0;
    group = createGroupWriter(writer);
  });
  afterEach(() => {
    reader.close();
    writer.close();
    rmSync(folder, { recursive: true });
  });

  const textsOf = (database: Database) => database.prepare('select text from notes order by rowid').pluck().all();
  const note = (text: string, parent: number | null = null) =>
    writer.prepare('insert into notes values (?, ?)').run(text, parent);

  async function write(text: string, fails = false): Promise<void> {
    const member = await group.begin();
    note(text);
    await (fails ? member.rollback() : member.commit());
  }

  test('commits transactions that arrive together once, in their order', async () => {
    await Promise.all(['a', 'b', 'c'].map((text) => write(text)));
    assert.deepEqual(textsOf(reader), ['a', 'b', 'c']);
    assert.equal(commits, 1);
  });

  test('waits for transactions that arrive in consecutive turns of the event loop', async () => {
    const writing = [write('a')];
    for (const text of ['b', 'c']) {
      await nextTurn();
      writing.push(write(text));
    }
    await Promise.all(writing);
    assert.deepEqual(textsOf(reader), ['a', 'b', 'c']);
    assert.equal(commits, 1);
  });

  test('resolves no member before the commit, and all members after it', async () => {
    const resolved: string[] = [];
    const all = ['a', 'b', 'c'].map(async (text) => {
      await write(text, text === 'b');
      assert.deepEqual(textsOf(reader), ['a', 'c']);
      resolved.push(text);
    });
    await Promise.resolve();
    assert.deepEqual([resolved, textsOf(reader)], [[], []]);
    await Promise.all(all);
    assert.deepEqual(resolved.sort(), ['a', 'b', 'c']);
  });

  test('lets one member write at a time, and each sees the writes of the earlier ones', async () => {
    const first = await group.begin();
    let begun = false;
    const second = group.begin().then((member) => {
      begun = true;
      assert.deepEqual(textsOf(writer), ['a']);
      return member.commit();
    });
    await nextTurn();
    note('a');
    assert.equal(begun, false);
    // The commit is due, but must wait: otherwise half of a transaction would be committed.
    assert.deepEqual(textsOf(reader), []);
    await Promise.all([first.commit(), second]);
    assert.deepEqual(textsOf(reader), ['a']);
  });

  test('rolls back one member without the others', async () => {
    await Promise.all([write('a'), write('b', true), write('c')]);
    assert.deepEqual(textsOf(reader), ['a', 'c']);
  });

  test('rejects all members when the commit fails, and the next group works', async () => {
    const orphan = async () => {
      const member = await group.begin();
      note('orphan', 4711);
      await member.commit();
    };
    const results = await Promise.allSettled([write('a'), orphan(), write('b')]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ['rejected', 'rejected', 'rejected'],
    );
    assert.equal(writer.inTransaction, false);
    await write('c');
    assert.deepEqual(textsOf(reader), ['c']);
  });

  test('rejects all members when SQLite rolls back the whole transaction', async () => {
    const kept = write('a');
    const member = await group.begin();
    // SQLite does the same by itself when the disk is full.
    writer.exec('rollback');
    const [first, second] = await Promise.allSettled([kept, member.commit()]);
    assert.deepEqual([first.status, second.status], ['rejected', 'rejected']);
    await write('b');
    assert.deepEqual(textsOf(reader), ['b']);
  });

  test('rejects all members with the error of a full disk, and writes in every transaction until a commit succeeds', async () => {
    const userVersion = () => Number(reader.pragma('user_version', { simple: true }));
    const full = { code: 'storage_unavailable', transient: true };
    writer.pragma(`max_page_count = ${writer.pragma('page_count', { simple: true })}`);
    const small = write('a');
    const member = await group.begin();
    const insert = () => note('x'.repeat(100_000));
    assert.throws(() => group.run(insert), full);
    assert.throws(() => group.run(insert), full, 'it would be committed on its own');
    await member.rollback();
    await assert.rejects(small, full);
    assert.equal(group.lastFailure()?.code, 'storage_unavailable');

    writer.pragma('max_page_count = 1000000');
    const before = userVersion();
    const readOnly = await group.begin();
    await readOnly.commit();
    assert.equal(userVersion(), before + 1, 'a transaction without changes has written');
    assert.equal(group.lastFailure(), undefined);
    await write('b');
    assert.deepEqual([textsOf(reader), userVersion()], [['b'], before + 1]);
  });

  test('limits the size of a group', async () => {
    await Promise.all(Array.from({ length: 200 }, (_, index) => write(String(index))));
    assert.equal(textsOf(reader).length, 200);
    assert.equal(commits, 4);
  });

  test('allows savepoints inside a member', async () => {
    const outer = write('a');
    const member = await group.begin();
    note('b');
    writer.exec('savepoint inner_one');
    note('c');
    writer.exec('rollback to inner_one');
    await Promise.all([outer, member.commit()]);
    assert.deepEqual(textsOf(reader), ['a', 'b']);
  });

  test('runs a statement that cannot be in a transaction after the open group is committed', async () => {
    const before = write('a');
    const copy = join(folder, 'copy.db');
    await Promise.all([
      before,
      group.runOutsideTransaction(() => writer.prepare('vacuum into ?').run(copy)),
      write('b'),
    ]);
    const copied = new Sqlite(copy, { readonly: true });
    assert.deepEqual(textsOf(copied), ['a']);
    copied.close();
    assert.deepEqual(textsOf(reader), ['a', 'b']);
  });

  test('unlocks when a transaction cannot begin', async () => {
    const other = new Sqlite(join(folder, 'x.db'));
    writer.pragma('busy_timeout = 0');
    other.exec('begin immediate');
    await assert.rejects(write('a'), { code: 'unavailable', transient: true });
    other.exec('rollback');
    other.close();
    await write('b');
    assert.deepEqual(textsOf(reader), ['b']);
  });
});
