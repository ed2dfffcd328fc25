import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import Sqlite, { type Database } from 'better-sqlite3';
import { createSharedWriter, type SharedWriter } from '../../../src/store/database/group-commit.ts';

// On the real SQLite, by two connections: one that writes, and one that sees only what is committed.
describe('transactions that share a commit', () => {
  let folder: string;
  let writer: Database;
  let reader: Database;
  let shared: SharedWriter;
  let commits: number;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'bursar-group-'));
    writer = new Sqlite(join(folder, 'x.db'));
    writer.pragma('journal_mode = WAL');
    writer.exec(`create table parents (id integer primary key);
      create table notes (text text, parent integer references parents (id) deferrable initially deferred)`);
    writer.pragma('foreign_keys = ON');
    reader = new Sqlite(join(folder, 'x.db'), { readonly: true });
    commits = 0;
    shared = createSharedWriter(writer, () => {
      commits += 1;
    });
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
    const share = await shared.begin();
    note(text);
    await (fails ? share.undo() : share.keep());
  }

  test('those that come together are committed once, in their order', async () => {
    await Promise.all(['a', 'b', 'c'].map((text) => write(text)));
    assert.deepEqual(textsOf(reader), ['a', 'b', 'c']);
    assert.equal(commits, 1);
  });

  test('those that follow one another turn by turn are waited for', async () => {
    const writing = [write('a')];
    for (const text of ['b', 'c']) {
      await nextTurn();
      writing.push(write(text));
    }
    await Promise.all(writing);
    assert.deepEqual(textsOf(reader), ['a', 'b', 'c']);
    assert.equal(commits, 1);
  });

  test('nobody is told before it is committed, and everybody right after', async () => {
    const told: string[] = [];
    const all = ['a', 'b', 'c'].map(async (text) => {
      await write(text, text === 'b');
      assert.deepEqual(textsOf(reader), ['a', 'c']);
      told.push(text);
    });
    await Promise.resolve();
    assert.deepEqual([told, textsOf(reader)], [[], []]);
    await Promise.all(all);
    assert.deepEqual(told.sort(), ['a', 'b', 'c']);
  });

  test('each has its turn for itself, and sees what those before it did', async () => {
    const first = await shared.begin();
    let begun = false;
    const second = shared.begin().then((share) => {
      begun = true;
      assert.deepEqual(textsOf(writer), ['a']);
      return share.keep();
    });
    await nextTurn();
    note('a');
    assert.equal(begun, false);
    // Not even the commit comes in between, though it is due: half of a transaction would be in the books.
    assert.deepEqual(textsOf(reader), []);
    await Promise.all([first.keep(), second]);
    assert.deepEqual(textsOf(reader), ['a']);
  });

  test('one that is undone takes nothing of the others with it', async () => {
    await Promise.all([write('a'), write('b', true), write('c')]);
    assert.deepEqual(textsOf(reader), ['a', 'c']);
  });

  test('a commit that fails fails all of them, and the next ones are not concerned', async () => {
    const orphan = async () => {
      const share = await shared.begin();
      note('orphan', 4711);
      await share.keep();
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

  test('when the database takes the whole transaction back, all who were in it are told so', async () => {
    const kept = write('a');
    const share = await shared.begin();
    // What SQLite does by itself when the disk is full.
    writer.exec('rollback');
    const [first, second] = await Promise.allSettled([kept, share.keep()]);
    assert.deepEqual([first.status, second.status], ['rejected', 'rejected']);
    await write('b');
    assert.deepEqual(textsOf(reader), ['b']);
  });

  test('very many are several commits, so that the first need not wait for the last', async () => {
    await Promise.all(Array.from({ length: 200 }, (_, index) => write(String(index))));
    assert.equal(textsOf(reader).length, 200);
    assert.equal(commits, 4);
  });

  test('a savepoint of a transaction is its own', async () => {
    const outer = write('a');
    const share = await shared.begin();
    note('b');
    writer.exec('savepoint inner_one');
    note('c');
    writer.exec('rollback to inner_one');
    await Promise.all([outer, share.keep()]);
    assert.deepEqual(textsOf(reader), ['a', 'b']);
  });

  test('what cannot be in a transaction waits for its turn, after what was written before', async () => {
    const before = write('a');
    const copy = join(folder, 'copy.db');
    await Promise.all([before, shared.alone(() => writer.prepare('vacuum into ?').run(copy)), write('b')]);
    const copied = new Sqlite(copy, { readonly: true });
    assert.deepEqual(textsOf(copied), ['a']);
    copied.close();
    assert.deepEqual(textsOf(reader), ['a', 'b']);
  });

  test('one that cannot begin leaves its turn to the next', async () => {
    const other = new Sqlite(join(folder, 'x.db'));
    writer.pragma('busy_timeout = 0');
    other.exec('begin immediate');
    await assert.rejects(write('a'), { code: 'SQLITE_BUSY' });
    other.exec('rollback');
    other.close();
    await write('b');
    assert.deepEqual(textsOf(reader), ['b']);
  });
});
