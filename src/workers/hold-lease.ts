import { BursarError } from '../domain/errors.ts';
import type { Db, Tx } from '../store/database/handle.ts';
import { inTransaction } from '../store/database/transaction.ts';
import { acquireLease, type Lease, releaseLease, renewLease, requireLease } from '../store/systems/leases.ts';
import { type Logger, startLoop } from './loop.ts';

/** A lease that this process acquired. It may have expired meanwhile. */
export interface HeldLease {
  /** Throws `lease_lost` if the lease may have expired. Call it before every external side effect. */
  assertValid(): void;
  /** Runs a transaction that commits only if no other process has acquired the lease by then. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

export interface Stoppable {
  /** Waits for operations in progress. */
  stop(): Promise<void>;
}

export interface LeaseDeps {
  db: Db;
  /** Identifies this process to people who read the table of leases. */
  holder: string;
  /** Others can acquire the lease this long after its last renewal. */
  leaseMs: number;
  log: Logger;
}

const acquireRetryMs = 1000;

interface CurrentLease {
  lease: Lease;
  /** By the monotonic clock of this process, which also advances while the process is suspended. */
  validUntil: number;
  work: Stoppable;
}

/**
 * Acquires a lease as soon as it is free and starts the work. Renews the lease, and stops the work when it could not be
 * renewed in time. A process that was suspended for longer than the lease notices before it acts: by its own clock in
 * `assertValid`, and by the fencing token in `transaction`.
 */
export function holdLease(
  { db, holder, leaseMs, log }: LeaseDeps,
  name: string,
  start: (lease: HeldLease) => Promise<Stoppable>,
): Stoppable {
  let current: CurrentLease | undefined;
  let isStopping = false;

  async function acquire(): Promise<void> {
    const requestedAt = performance.now();
    const lease = await acquireLease(db, name, holder, leaseMs);
    if (lease === undefined) return;
    const acquired: CurrentLease = { lease, validUntil: requestedAt + leaseMs, work: { stop: async () => undefined } };
    log.info({ name, fencingToken: lease.fencingToken }, 'lease acquired');
    current = acquired;
    try {
      acquired.work = await start(toHeldLease(acquired));
    } catch (error) {
      current = undefined;
      await releaseLease(db, lease);
      throw error;
    }
  }

  const toHeldLease = (acquired: CurrentLease): HeldLease => ({
    assertValid() {
      if (current === acquired && performance.now() < acquired.validUntil) return;
      throw new BursarError('lease_lost', `The lease of ${name} has expired.`, { transient: true });
    },
    transaction: async (work) =>
      await inTransaction(db, async (tx) => {
        await requireLease(tx, acquired.lease);
        return await work(tx);
      }),
  });

  async function acquireOrRenew(): Promise<void> {
    if (current === undefined && isStopping) return;
    if (current === undefined) return await acquire();
    const requestedAt = performance.now();
    if (requestedAt >= current.validUntil) return await handleLostLease('not renewed in time');
    if (await renewLease(db, current.lease, leaseMs)) current.validUntil = requestedAt + leaseMs;
    else await handleLostLease('acquired by another instance');
  }

  async function handleLostLease(reason: string): Promise<void> {
    const lost = current;
    current = undefined;
    log.warn({ name, fencingToken: lost?.lease.fencingToken, reason }, 'lease lost');
    await lost?.work.stop();
  }

  const loop = startLoop(async () => {
    try {
      await acquireOrRenew();
    } catch (error) {
      log.warn({ err: error, name }, 'lease could not be acquired or renewed, will retry');
      if (current !== undefined && performance.now() >= current.validUntil)
        await handleLostLease('database unavailable');
    }
    return current === undefined ? Math.min(acquireRetryMs, leaseMs / 3) : leaseMs / 3;
  });
  return {
    async stop() {
      isStopping = true;
      // The loop keeps renewing the lease until the work has stopped, so that operations in progress can finish.
      const stoppedWork = current?.work;
      await stoppedWork?.stop();
      await loop.stop();
      const last = current;
      // The work was still starting when `stop` was called.
      if (last?.work !== stoppedWork) await last?.work.stop();
      current = undefined;
      if (last !== undefined) await releaseLease(db, last.lease).catch(() => undefined);
    },
  };
}
