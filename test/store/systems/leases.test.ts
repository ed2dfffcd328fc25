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

const longMs = 600_000;
const alreadyExpiredMs = -1;

describe('leases', () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await openTestDatabase([], 1, 1);
  });
  afterEach(() => database.close());

  const acquire = async (durationMs: number, name = 'system sys'): Promise<Lease> => {
    const lease = await acquireLease(database.db, name, 'first', durationMs);
    assert.ok(lease);
    return lease;
  };
  const write = (lease: Lease) => inTransaction(database.db, (tx) => requireLease(tx, lease));

  test('of one name have one holder at a time', async () => {
    const lease = await acquire(longMs);
    assert.equal(await acquireLease(database.db, 'system sys', 'another', longMs), undefined);
    assert.deepEqual(await acquire(longMs, 'system other'), { name: 'system other', fencingToken: 1 });
    await write(lease);
  });

  test('are acquired by one of many concurrent callers', async () => {
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, index) => acquireLease(database.db, 'system sys', `holder ${index}`, longMs)),
    );
    assert.equal(all.filter((lease) => lease !== undefined).length, 1);
  });

  test('that expired can be acquired by another, and the former holder can neither renew them nor write', async () => {
    const first = await acquire(alreadyExpiredMs);
    const second = await acquire(longMs);
    assert.ok(second.fencingToken > first.fencingToken);
    assert.equal(await renewLease(database.db, first, longMs), false);
    await assert.rejects(write(first), { code: 'lease_lost' });
    await releaseLease(database.db, first);
    assert.equal(await acquireLease(database.db, 'system sys', 'third', longMs), undefined);
    await write(second);
  });

  test('can be acquired again by their holder, which may not know that it has them', async () => {
    const first = await acquire(longMs);
    const again = await acquire(longMs);
    assert.ok(again.fencingToken > first.fencingToken);
    await assert.rejects(write(first), { code: 'lease_lost' });
    await write(again);
  });

  test('that expired can be renewed until another acquires them', async () => {
    const lease = await acquire(alreadyExpiredMs);
    assert.equal(await renewLease(database.db, lease, longMs), true);
    assert.equal(await acquireLease(database.db, 'system sys', 'another', longMs), undefined);
  });

  test('that were released can be acquired at once', async () => {
    await releaseLease(database.db, await acquire(longMs));
    await acquire(longMs);
    await acquire(longMs, 'system other');
    await releaseAllLeases(database.db);
    await acquire(longMs);
    await acquire(longMs, 'system other');
  });

  test('cannot be acquired before the transaction of the former holder ends', async () => {
    const holder = await acquire(alreadyExpiredMs);
    const steps: string[] = [];
    let acquiring: Promise<unknown> = Promise.resolve();
    await inTransaction(database.db, async (tx) => {
      await requireLease(tx, holder);
      acquiring = acquireLease(database.db, 'system sys', 'another', longMs).then(() => steps.push('acquired'));
      await new Promise((resolve) => setTimeout(resolve, 100));
      steps.push('written');
    });
    await acquiring;
    assert.deepEqual(steps, ['written', 'acquired']);
    await assert.rejects(write(holder), { code: 'lease_lost' });
  });
});
