import { type RawBuilder, sql } from 'kysely';
import { BursarError } from '../../domain/errors.ts';
import type { Db, Tx } from '../database/handle.ts';

/**
 * The right to do a piece of work alone, until it expires. Each time that it is taken it has a new term: a number that
 * only grows, by which the books tell its holder from all who had it before.
 */
export interface Lease {
  name: string;
  fencingToken: number;
}

/** Takes a lease that nobody has, or that has expired; undefined when somebody has it. */
export async function acquireLease(db: Db, name: string, holder: string, forMs: number): Promise<Lease | undefined> {
  const clock = clockOf(db);
  const row = await db
    .insertInto('leases')
    .values({ name, holder, term: 1, expires_at: sql`${clock} + ${forMs}` })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet((eb) => ({
          holder: eb.ref('excluded.holder'),
          term: eb('leases.term', '+', 1),
          expires_at: eb.ref('excluded.expires_at'),
        }))
        .where('leases.expires_at', '<=', clock),
    )
    .returning('term')
    .executeTakeFirst();
  return row && { name, fencingToken: row.term };
}

/** Keeps a lease for longer. False when it has become somebody else's. */
export async function renewLease(db: Db, { name, fencingToken: term }: Lease, forMs: number): Promise<boolean> {
  const row = await db
    .updateTable('leases')
    .set({ expires_at: sql`${clockOf(db)} + ${forMs}` })
    .where('name', '=', name)
    .where('term', '=', term)
    .returning('term')
    .executeTakeFirst();
  return row !== undefined;
}

/** Lets others have it at once. */
export async function releaseLease(db: Db, { name, fencingToken: term }: Lease): Promise<void> {
  await db.updateTable('leases').set({ expires_at: 0 }).where('name', '=', name).where('term', '=', term).execute();
}

/** Ends all of them: for a server that has just taken the whole database for itself. */
export async function releaseAllLeases(db: Db): Promise<void> {
  await db.updateTable('leases').set({ expires_at: 0 }).execute();
}

/**
 * Goes on only if the lease has not become somebody else's, and keeps it from that until the transaction ends. So what
 * is written under a lease is written before the next holder begins, or not at all.
 */
export async function requireLease(tx: Tx, { name, fencingToken: term }: Lease): Promise<void> {
  const query = tx.selectFrom('leases').select('term').where('name', '=', name).where('term', '=', term);
  const row = await (tx.backend.dialect.locksRows ? query.forShare() : query).executeTakeFirst();
  if (row !== undefined) return;
  throw new BursarError('lease_lost', `Another Bursar has taken over ${name}.`, { transient: true });
}

/** The clock of the database, which is the same for all who share it. */
function clockOf(db: Db): RawBuilder<number> {
  return sql<number>`${sql.raw(db.backend.dialect.currentTimeMs)}`;
}
