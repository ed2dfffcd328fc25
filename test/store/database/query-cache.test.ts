import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { booksVersionOf, whenChanged } from '../../../src/store/database/query-cache.ts';
import { openSystem, setSystemPause } from '../../../src/store/systems/systems.ts';
import { openTestDatabase, type TestDatabase } from '../../support/database-settings.ts';

describe('a read that is repeated when somebody has written', () => {
  let books: TestDatabase;
  let reads: number;
  beforeEach(async () => {
    books = await openTestDatabase([], 1, 1);
    await openSystem(books.db, 'sys', 1);
    reads = 0;
  });
  afterEach(() => books.close());

  const pause = (reason: string) => setSystemPause(books.db, 'sys', { at: 1, reason });
  const reasonInBooks = async () => {
    reads += 1;
    return (await books.db.selectFrom('systems').select('pause_reason').executeTakeFirst())?.pause_reason;
  };

  test('gives what is in the books after every write', async () => {
    const read = whenChanged(books.db, reasonInBooks);
    assert.equal(await read(), null);
    for (const reason of ['a', 'b', 'c']) {
      await pause(reason);
      assert.equal(await read(), reason);
    }
  });

  test('is not repeated where the database can tell that nobody has', async () => {
    const read = whenChanged(books.db, reasonInBooks);
    for (let n = 0; n < 3; n++) await read();
    assert.equal(reads, booksVersionOf(books.db) === undefined ? 3 : 1);
  });

  test('does not miss what is written while it is under way', async () => {
    let whileReading = () => pause('meanwhile');
    const read = whenChanged(books.db, async () => {
      const reason = await reasonInBooks();
      await whileReading();
      whileReading = async () => undefined;
      return reason;
    });
    assert.equal(await read(), null);
    assert.equal(await read(), 'meanwhile');
  });

  test('that failed is tried again', async () => {
    let fails = true;
    const read = whenChanged(books.db, async () => {
      if (fails) throw new Error('no');
      return 'there';
    });
    await assert.rejects(read());
    fails = false;
    assert.equal(await read(), 'there');
  });
});
