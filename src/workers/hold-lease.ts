import { BursarError } from '../domain/errors.ts';
import type { Db } from '../store/database/tables.ts';
import { inTransaction } from '../store/database/transaction.ts';
import { acquireLease, type Lease, releaseLease, renewLease, requireLease } from '../store/systems/leases.ts';
import type { Log } from './log.ts';
import { startLoop } from './loop.ts';

/** The time in which a piece of work is this process's, and nobody else's. */
export interface HeldLease {
  /** Throws when it may be over: who acts on the world outside asks first. */
  assertValid(): void;
  /** A transaction that is in the books only if the work was still this process's when it ended. */
  transaction<T>(work: (tx: Db) => Promise<T>): Promise<T>;
}

/** What runs during a tenure. Stopping it waits for what is under way. */
export interface LeasedWork {
  stop(): Promise<void>;
}

export interface LeaseDeps {
  db: Db;
  /** Names this process, for people who read the table of leases. */
  holder: string;
  /** How long others wait for a holder who does not answer. */
  leaseMs: number;
  log: Log;
}

/** Between two tries to take a lease. */
const againMs = 1000;

interface Term {
  lease: Lease;
  /** By the clock of this process, which goes on while it is stopped. */
  validUntil: number;
  work: LeasedWork;
}

/**
 * Takes up a piece of work as soon as nobody has it, keeps it by renewing its lease, and lets go of it when that did not
 * succeed in time. A process that is stopped for longer than a lease finds out before it acts: by its own clock here, and
 * by the term of the lease in the books.
 */
export function holdLease(
  { db, holder, leaseMs, log }: LeaseDeps,
  name: string,
  begin: (tenure: HeldLease) => Promise<LeasedWork>,
): LeasedWork {
  let current: Term | undefined;
  let stopping = false;

  async function take(): Promise<void> {
    const askedAt = performance.now();
    const lease = await acquireLease(db, name, holder, leaseMs);
    if (lease === undefined) return;
    const term: Term = { lease, validUntil: askedAt + leaseMs, work: { stop: async () => undefined } };
    log.info({ name, term: lease.fencingToken }, 'this work is ours now');
    current = term;
    try {
      term.work = await begin(tenureOf(term));
    } catch (error) {
      current = undefined;
      await releaseLease(db, lease);
      throw error;
    }
  }

  const tenureOf = (term: Term): HeldLease => ({
    assertValid() {
      if (current === term && performance.now() < term.validUntil) return;
      throw new BursarError('lease_lost', `The lease of ${name} has run out.`, { transient: true });
    },
    transaction: async (work) =>
      await inTransaction(db, async (tx) => {
        await requireLease(tx, term.lease);
        return await work(tx);
      }),
  });

  async function renew(): Promise<void> {
    if (current === undefined) return stopping ? undefined : await take();
    const askedAt = performance.now();
    if (askedAt >= current.validUntil) return await leave('it was not renewed in time');
    if (await renewLease(db, current.lease, leaseMs)) current.validUntil = askedAt + leaseMs;
    else await leave('another Bursar has taken it over');
  }

  async function leave(why: string): Promise<void> {
    const left = current;
    current = undefined;
    log.warn({ name, term: left?.lease.fencingToken, why }, 'this work is not ours any more');
    await left?.work.stop();
  }

  const loop = startLoop(async () => {
    try {
      await renew();
    } catch (error) {
      log.warn({ err: error, name }, 'lease neither taken nor renewed');
      if (current !== undefined && performance.now() >= current.validUntil) await leave('the database does not answer');
    }
    return current === undefined ? Math.min(againMs, leaseMs / 3) : leaseMs / 3;
  });
  return {
    async stop() {
      stopping = true;
      // It goes on being renewed meanwhile, so that what is under way can be finished.
      const stopped = current?.work;
      await stopped?.stop();
      await loop.stop();
      const last = current;
      // Work that was only being begun when it should stop.
      if (last?.work !== stopped) await last?.work.stop();
      current = undefined;
      if (last !== undefined) await releaseLease(db, last.lease).catch(() => undefined);
    },
  };
}
