import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { acquireLease } from '../../src/store/systems/leases.ts';
import { type HeldLease, holdLease, type LeasedWork } from '../../src/workers/hold-lease.ts';
import { maxTimerMs } from '../../src/workers/loop.ts';
import { openTestDatabase, type TestDatabase } from '../support/database-settings.ts';
import { until } from '../support/until.ts';

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
const leaseMs = 300;

describe('a tenure', () => {
  let books: TestDatabase;
  let kept: LeasedWork[] = [];
  beforeEach(async () => {
    books = await openTestDatabase([], 1, 1);
  });
  afterEach(async () => {
    await Promise.all(kept.map((work) => work.stop()));
    kept = [];
    await books.close();
  });

  /** One who wants the work, and what has become of it. */
  function candidate(holder: string, forMs = leaseMs) {
    const seen = { tenures: [] as HeldLease[], stopped: 0 };
    const deps = { db: books.db, holder, leaseMs: forMs, log: silent };
    const work = holdLease(deps, 'work', async (tenure) => {
      seen.tenures.push(tenure);
      return {
        stop: async () => {
          seen.stopped += 1;
        },
      };
    });
    kept.push(work);
    return { seen, work, tenure: () => until(`${holder} has the work`, () => seen.tenures.at(-1)) };
  }

  test('is one candidate’s at a time, and the next one’s when it ends', async () => {
    const first = candidate('first');
    const tenure = await first.tenure();
    const second = candidate('second');
    await new Promise((resolve) => setTimeout(resolve, leaseMs * 3));
    assert.equal(second.seen.tenures.length, 0);
    tenure.assertValid();
    await first.work.stop();
    assert.equal(first.seen.stopped, 1);
    (await second.tenure()).assertValid();
    assert.throws(() => tenure.assertValid(), { code: 'lease_lost' });
    await assert.rejects(
      tenure.transaction(async () => 1),
      { code: 'lease_lost' },
    );
  });

  test('that is only beginning when it should end is ended all the same', async () => {
    const begun = Promise.withResolvers<void>();
    const ready = Promise.withResolvers<void>();
    let stopped = 0;
    const deps = { db: books.db, holder: 'slow', leaseMs, log: silent };
    const work = holdLease(deps, 'work', async () => {
      begun.resolve();
      await ready.promise;
      return {
        stop: async () => {
          stopped += 1;
        },
      };
    });
    await begun.promise;
    const stopping = work.stop();
    ready.resolve();
    await stopping;
    assert.equal(stopped, 1);
  });

  test('that was taken over is over: its work is stopped, and it writes nothing any more', async () => {
    const first = candidate('first');
    const tenure = await first.tenure();
    await books.db.updateTable('leases').set({ expires_at: 0 }).execute();
    assert.ok(await acquireLease(books.db, 'work', 'another', 60_000));
    await assert.rejects(
      tenure.transaction(async (tx) => await tx.deleteFrom('projects').execute()),
      { code: 'lease_lost' },
    );
    await until('its work is stopped', () => first.seen.stopped || undefined);
    assert.throws(() => tenure.assertValid(), { code: 'lease_lost' });
  });

  test('goes on for as long as it is renewed, and is taken up again when it was lost', async () => {
    const only = candidate('only');
    const tenure = await only.tenure();
    await new Promise((resolve) => setTimeout(resolve, leaseMs * 4));
    assert.equal(await tenure.transaction(async () => 'written'), 'written');
    await books.db.updateTable('leases').set({ term: 99, expires_at: 0 }).execute();
    await until('a second tenure', () => only.seen.tenures[1]);
    assert.equal(only.seen.stopped, 1);
  });

  test('that could not begin is tried again, and kept from nobody', async () => {
    let tries = 0;
    const deps = { db: books.db, holder: 'unlucky', leaseMs: maxTimerMs, log: silent };
    kept.push(
      holdLease(deps, 'work', async () => {
        tries += 1;
        if (tries < 2) throw new Error('not now');
        return { stop: async () => undefined };
      }),
    );
    await until('a second try', () => (tries === 2 ? true : undefined));
  });
});
