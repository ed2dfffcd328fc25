import { setTimeout as sleep } from 'node:timers/promises';
import { BursarError } from '../domain/errors.ts';
import type { Db, Tx } from '../store/database/handle.ts';
import { inTransaction } from '../store/database/transaction.ts';
import { acquireLease, type Lease, releaseLease, renewLease, requireLease } from '../store/systems/leases.ts';
import { type Logger, startLoop } from './loop.ts';

/** A lease that this process acquired. It may have expired meanwhile. */
export interface HeldLease {
  /** Throws `lease_lost` if the lease may have expired. Call it before every external side effect. */
  assertValid(): void;
  /** Runs a transaction that commits only if this process has not given the lease up and no other one has acquired it. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

export interface Stoppable {
  /** Aborts operations in progress, and waits for their end. */
  stop(): Promise<void>;
}

export interface LeaseDeps {
  db: Db;
  /** Identifies this process to people who read the table of leases. */
  holder: string;
  /** Others can acquire the lease this long after its last renewal. */
  leaseMs: number;
  /** How long `stop` waits for the work, and renews the lease meanwhile. */
  drainMs: number;
  log: Logger;
}

/** Starts the work of a lease. The signal is aborted when the work must stop, even while it is still starting. */
export type StartWork = (lease: HeldLease, signal: AbortSignal) => Promise<Stoppable>;

const acquireRetryMs = 1000;

interface CurrentLease {
  lease: Lease;
  /** By the monotonic clock of this process, which also advances while the process is suspended. */
  validUntil: number;
  stopWork(): Promise<void>;
}

/**
 * Acquires a lease as soon as it is free and starts the work. Renews the lease, even while the work starts, and stops the
 * work when it could not be renewed in time. A process that was suspended for longer than the lease notices before it
 * acts: by its own clock in `assertValid`, and by the fencing token in `transaction`.
 *
 * `stop` stops the work and releases the lease. Work that has not stopped after `drainMs` loses the lease: nothing of it
 * can begin any more, and the lease expires instead of being released, because an operation may still be in progress.
 */
export function holdLease({ db, holder, leaseMs, drainMs, log }: LeaseDeps, name: string, start: StartWork): Stoppable {
  let current: CurrentLease | undefined;
  /** The end of the work of a lost lease. The lease is not acquired again before. */
  let lostWork: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;

  async function acquire(): Promise<void> {
    const requestedAt = performance.now();
    const lease = await acquireLease(db, name, holder, leaseMs);
    if (lease === undefined) return;
    if (stopped !== undefined) return await releaseLease(db, lease);
    log.info({ name, fencingToken: lease.fencingToken }, 'lease acquired');
    const acquired: CurrentLease = { lease, validUntil: requestedAt + leaseMs, stopWork: async () => undefined };
    current = acquired;
    acquired.stopWork = startWork(acquired);
  }

  /** Starts the work without waiting for it. Returns the function that stops it, which never throws. */
  function startWork(acquired: CurrentLease): () => Promise<void> {
    const stopping = new AbortController();
    const started = start(toHeldLease(acquired), stopping.signal).catch(async (error) => {
      log.warn({ err: error, name }, 'work could not be started, will retry');
      if (current !== acquired) return undefined;
      current = undefined;
      await releaseLease(db, acquired.lease).catch(() => undefined);
      loop.wake(retryMs);
      return undefined;
    });
    let workStopped: Promise<void> | undefined;
    const stop = async () => {
      stopping.abort();
      const work = await started;
      await work?.stop().catch((error) => log.error({ err: error, name }, 'work failed to stop'));
    };
    return () => {
      workStopped ??= stop();
      return workStopped;
    };
  }

  const toHeldLease = (acquired: CurrentLease): HeldLease => ({
    assertValid() {
      if (current === acquired && performance.now() < acquired.validUntil) return;
      throw leaseLostError(name);
    },
    transaction: async (work) =>
      await inTransaction(db, async (tx) => {
        await requireLease(tx, acquired.lease);
        if (current !== acquired) throw leaseLostError(name);
        return await work(tx);
      }),
  });

  async function acquireOrRenew(): Promise<void> {
    if (current === undefined) return stopped === undefined && lostWork === undefined ? await acquire() : undefined;
    const requestedAt = performance.now();
    if (requestedAt >= current.validUntil) return handleLostLease('not renewed in time');
    const renewing = current;
    const isRenewed = await renewLease(db, renewing.lease, leaseMs);
    if (isRenewed) renewing.validUntil = requestedAt + leaseMs;
    else if (current === renewing) handleLostLease('acquired by another instance');
  }

  function handleLostLease(reason: string): void {
    const lost = current;
    current = undefined;
    log.warn({ name, fencingToken: lost?.lease.fencingToken, reason }, 'lease lost');
    lostWork = lost?.stopWork().finally(() => {
      lostWork = undefined;
      loop.wake(retryMs);
    });
  }

  const retryMs = Math.min(acquireRetryMs, leaseMs / 3);
  const loop = startLoop(async () => {
    try {
      await acquireOrRenew();
    } catch (error) {
      log.warn({ err: error, name }, 'lease could not be acquired or renewed, will retry');
      if (current !== undefined && performance.now() >= current.validUntil) handleLostLease('database unavailable');
    }
    return current === undefined ? retryMs : leaseMs / 3;
  });

  async function stop(): Promise<void> {
    // The loop keeps renewing the lease meanwhile, so that the work can store its results.
    const hasStopped = await settlesWithin(drainMs, current?.stopWork() ?? lostWork);
    await loop.stop();
    const last = current;
    current = undefined;
    if (hasStopped && last !== undefined) await releaseLease(db, last.lease).catch(() => undefined);
    if (!hasStopped) log.warn({ name, drainMs }, 'work did not stop in time, its lease expires');
  }

  return {
    stop() {
      stopped ??= stop();
      return stopped;
    },
  };
}

const leaseLostError = (name: string) =>
  new BursarError('lease_lost', `The lease of ${name} has expired.`, { transient: true });

/** Returns false if the promise is still pending after this time. */
const settlesWithin = (timeoutMs: number, promise: Promise<void> | undefined): Promise<boolean> =>
  Promise.race([Promise.resolve(promise).then(() => true), sleep(timeoutMs, false, { ref: false })]);
