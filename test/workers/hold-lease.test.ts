import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { acquireLease } from '../../src/store/systems/leases.ts';
import { type HeldLease, holdLease, type Stoppable } from '../../src/workers/hold-lease.ts';
import { maxTimerMs } from '../../src/workers/loop.ts';
import { openTestDatabase, type TestDatabase } from '../support/test-database.ts';
import { until } from '../support/until.ts';

const silentLog = { info: () => undefined, warn: () => undefined, error: () => undefined };
const leaseMs = 600;
/** For tests in which the lease must not expire: longer than a busy machine stops a process. */
const longLeaseMs = 6000;
const drainMs = 60_000;

describe('holdLease', () => {
  let database: TestDatabase;
  let started: Stoppable[] = [];
  beforeEach(async () => {
    database = await openTestDatabase([], 1, 1);
  });
  afterEach(async () => {
    await Promise.all(started.map((work) => work.stop()));
    started = [];
    await database.close();
  });

  /** Starts an instance that wants the lease, and records the leases that it acquired. */
  function startInstance(holder: string, instanceLeaseMs = leaseMs) {
    const acquired: HeldLease[] = [];
    const instance = {
      acquired,
      stopCount: 0,
      latestLease: () => until(`${holder} has the lease`, () => acquired.at(-1)),
      stop: () => work.stop(),
    };
    const deps = { db: database.db, holder, leaseMs: instanceLeaseMs, drainMs, log: silentLog };
    const work = holdLease(deps, 'work', async (lease) => {
      acquired.push(lease);
      return {
        stop: async () => {
          instance.stopCount += 1;
        },
      };
    });
    started.push(work);
    return instance;
  }

  const readExpiry = async () =>
    (await database.db.selectFrom('leases').select('expiresAt').executeTakeFirstOrThrow()).expiresAt;

  async function waitForRenewal(): Promise<void> {
    const firstExpiry = await readExpiry();
    await until('the lease is renewed', async () => (await readExpiry()) > firstExpiry || undefined);
  }

  test('gives the lease to one instance at a time, and to the next one after a stop', async () => {
    const first = startInstance('first', longLeaseMs);
    const lease = await first.latestLease();
    const second = startInstance('second', longLeaseMs);
    await waitForRenewal();
    assert.equal(second.acquired.length, 0);
    lease.assertValid();
    await first.stop();
    assert.equal(first.stopCount, 1);
    (await second.latestLease()).assertValid();
    assert.throws(() => lease.assertValid(), { code: 'lease_lost' });
    await assert.rejects(
      lease.transaction(async () => 1),
      { code: 'lease_lost' },
    );
  });

  test('stops work that is still starting when it is stopped', async () => {
    const starting = Promise.withResolvers<void>();
    const ready = Promise.withResolvers<void>();
    let stopCount = 0;
    const deps = { db: database.db, holder: 'slow', leaseMs, drainMs, log: silentLog };
    const work = holdLease(deps, 'work', async () => {
      starting.resolve();
      await ready.promise;
      return {
        stop: async () => {
          stopCount += 1;
        },
      };
    });
    await starting.promise;
    const stopping = work.stop();
    ready.resolve();
    await stopping;
    assert.equal(stopCount, 1);
  });

  test('renews the lease while the work starts', async () => {
    const ready = Promise.withResolvers<void>();
    const deps = { db: database.db, holder: 'slow', leaseMs: longLeaseMs, drainMs, log: silentLog };
    const leases: HeldLease[] = [];
    started.push(
      holdLease(deps, 'work', async (lease) => {
        leases.push(lease);
        await ready.promise;
        return { stop: async () => undefined };
      }),
    );
    const lease = await until('the work starts', () => leases[0]);
    const second = startInstance('second', longLeaseMs);
    await waitForRenewal();
    assert.equal(second.acquired.length, 0);
    assert.equal(await lease.transaction(async () => 'written'), 'written');
    ready.resolve();
  });

  test('aborts work that is starting when it is stopped', async () => {
    const signals: AbortSignal[] = [];
    const deps = { db: database.db, holder: 'slow', leaseMs, drainMs, log: silentLog };
    const work = holdLease(deps, 'work', async (_lease, signal) => {
      signals.push(signal);
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      throw new Error('interrupted');
    });
    await until('the work starts', () => signals[0]);
    await work.stop();
    assert.equal(signals[0]?.aborted, true);
  });

  test('gives the lease up when the work does not stop in time: nothing of it can begin any more', async () => {
    const leases: HeldLease[] = [];
    const deps = { db: database.db, holder: 'hanging', leaseMs, drainMs: 100, log: silentLog };
    const work = holdLease(deps, 'work', async (lease) => {
      leases.push(lease);
      return { stop: () => new Promise(() => undefined) };
    });
    const lease = await until('the work runs', () => leases[0]);
    await work.stop();
    assert.throws(() => lease.assertValid(), { code: 'lease_lost' });
    await assert.rejects(
      lease.transaction(async () => 1),
      { code: 'lease_lost' },
    );
    await startInstance('second').latestLease();
  });

  test('stops work once, and releases the lease although the work failed to stop', async () => {
    let stopCount = 0;
    const leases: HeldLease[] = [];
    const deps = { db: database.db, holder: 'failing', leaseMs: maxTimerMs, drainMs, log: silentLog };
    const work = holdLease(deps, 'work', async (lease) => {
      leases.push(lease);
      return {
        stop: async () => {
          stopCount += 1;
          throw new Error('cannot stop');
        },
      };
    });
    await until('the work runs', () => leases[0]);
    await Promise.all([work.stop(), work.stop()]);
    await work.stop();
    assert.equal(stopCount, 1);
    await startInstance('second').latestLease();
  });

  test('acquires the lease again after work that lost it failed to stop', async () => {
    const leases: HeldLease[] = [];
    const deps = { db: database.db, holder: 'failing', leaseMs, drainMs, log: silentLog };
    started.push(
      holdLease(deps, 'work', async (lease) => {
        leases.push(lease);
        return { stop: () => Promise.reject(new Error('cannot stop')) };
      }),
    );
    await until('the work runs', () => leases[0]);
    await database.db.updateTable('leases').set({ term: 99, expiresAt: 0 }).execute();
    await until('the lease is acquired a second time', () => leases[1]);
  });

  test('stops its work and refuses transactions after another instance acquired the lease', async () => {
    const first = startInstance('first');
    const lease = await first.latestLease();
    // The holder may renew it between the two statements.
    await until('another instance acquires the lease', async () => {
      await database.db.updateTable('leases').set({ expiresAt: 0 }).execute();
      return await acquireLease(database.db, 'work', 'another', 60_000);
    });
    await assert.rejects(
      lease.transaction(async (tx) => await tx.deleteFrom('projects').execute()),
      { code: 'lease_lost' },
    );
    await until('the work is stopped', () => first.stopCount || undefined);
    assert.throws(() => lease.assertValid(), { code: 'lease_lost' });
  });

  test('renews the lease, and acquires it again after a loss', async () => {
    const instance = startInstance('only', longLeaseMs);
    const lease = await instance.latestLease();
    await waitForRenewal();
    assert.equal(await lease.transaction(async () => 'written'), 'written');
    await database.db.updateTable('leases').set({ term: 99, expiresAt: 0 }).execute();
    await until('the lease is acquired a second time', () => instance.acquired[1]);
    assert.equal(instance.stopCount, 1);
  });

  test('releases the lease and retries if the work fails to start', async () => {
    let startCount = 0;
    const deps = { db: database.db, holder: 'failing', leaseMs: maxTimerMs, drainMs, log: silentLog };
    started.push(
      holdLease(deps, 'work', async () => {
        startCount += 1;
        if (startCount < 2) throw new Error('not now');
        return { stop: async () => undefined };
      }),
    );
    await until('the second start', () => (startCount === 2 ? true : undefined));
  });
});
