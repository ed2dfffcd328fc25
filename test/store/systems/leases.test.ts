import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import {
  acquireLease,
  type Lease,
  releaseAllLeases,
  releaseLease,
  renewLease,
  requireLease,
} from '../../../src/store/systems/leases.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

const long = 600_000;
/** Over as soon as it is taken. */
const over = -1;

describe('leases', () => {
  let books: TestDatabase;
  beforeEach(async () => {
    books = await openTestDatabase([], 1, 1);
  });
  afterEach(() => books.close());

  const take = async (forMs: number, name = 'system sys'): Promise<Lease> => {
    const lease = await acquireLease(books.db, name, 'somebody', forMs);
    assert.ok(lease);
    return lease;
  };
  const write = (lease: Lease) => inTransaction(books.db, (tx) => requireLease(tx, lease));

  test('one has it at a time, for each name', async () => {
    const lease = await take(long);
    assert.equal(await acquireLease(books.db, 'system sys', 'another', long), undefined);
    assert.deepEqual(await take(long, 'system other'), { name: 'system other', fencingToken: 1 });
    await write(lease);
  });

  test('of many who want it at once one gets it', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, () => acquireLease(books.db, 'system sys', 'x', long)));
    assert.equal(all.filter((lease) => lease !== undefined).length, 1);
  });

  test('when it has expired another may take it, and who had it can neither renew it nor write', async () => {
    const first = await take(over);
    const second = await take(long);
    assert.ok(second.fencingToken > first.fencingToken);
    assert.equal(await renewLease(books.db, first, long), false);
    await assert.rejects(write(first), { code: 'lease_lost' });
    await releaseLease(books.db, first);
    assert.equal(await acquireLease(books.db, 'system sys', 'third', long), undefined);
    await write(second);
  });

  test('one that has expired can be renewed while nobody has taken it', async () => {
    const lease = await take(over);
    assert.equal(await renewLease(books.db, lease, long), true);
    assert.equal(await acquireLease(books.db, 'system sys', 'another', long), undefined);
  });

  test('one that was ended is to be had at once', async () => {
    await releaseLease(books.db, await take(long));
    await take(long);
    await take(long, 'system other');
    await releaseAllLeases(books.db);
    await take(long);
    await take(long, 'system other');
  });

  test('what is written under a lease is written before it is taken over, or not at all', async () => {
    const holder = await take(over);
    const steps: string[] = [];
    let taking: Promise<unknown> = Promise.resolve();
    await inTransaction(books.db, async (tx) => {
      await requireLease(tx, holder);
      taking = acquireLease(books.db, 'system sys', 'another', long).then(() => steps.push('taken over'));
      await new Promise((resolve) => setTimeout(resolve, 100));
      steps.push('written');
    });
    await taking;
    assert.deepEqual(steps, ['written', 'taken over']);
    await assert.rejects(write(holder), { code: 'lease_lost' });
  });
});
