import { type RawBuilder, sql } from 'kysely';
import { BursarError } from '../../domain/errors.ts';
import type { Db, Tx } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';

/**
 * The exclusive right to some work until it expires. Each acquisition gets a greater fencing token (column `term`),
 * so that writes of earlier holders are rejected.
 */
export interface Lease {
  name: string;
  fencingToken: number;
}

/**
 * Acquires a lease that is free, has expired, or is this holder's own: the response to an acquisition or a release can be lost.
 * Returns undefined if another instance holds it.
 */
export async function acquireLease(
  db: Db,
  name: string,
  holder: string,
  durationMs: number,
): Promise<Lease | undefined> {
  const now = currentTimeMs(db);
  // Instances that wait for a lease look every second. A read is much cheaper than a write that changes nothing.
  const [held] = await selectLeaseOfOther(db, { name, holder });
  if (held !== undefined) return undefined;
  const row = await db
    .insertInto('leases')
    .values({ name, holder, term: 1, expiresAt: sql`${now} + ${durationMs}` })
    .onConflict((conflict) =>
      conflict
        .column('name')
        .doUpdateSet((eb) => ({
          holder: eb.ref('excluded.holder'),
          term: eb('leases.term', '+', 1),
          expiresAt: eb.ref('excluded.expiresAt'),
        }))
        .where((eb) => eb.or([eb('leases.expiresAt', '<=', now), eb('leases.holder', '=', holder)])),
    )
    .returning('term')
    .executeTakeFirst();
  return row && { name, fencingToken: row.term };
}

const selectLeaseOfOther = prepareQuery((db, param: Param<{ name: string; holder: string }>) =>
  db
    .selectFrom('leases')
    .select('term')
    .where('name', '=', param('name'))
    .where('holder', '!=', param('holder'))
    .where('expiresAt', '>', currentTimeMs(db)),
);

/** Extends a lease. Returns false if another instance has acquired it. */
export async function renewLease(db: Db, { name, fencingToken: term }: Lease, durationMs: number): Promise<boolean> {
  const row = await db
    .updateTable('leases')
    .set({ expiresAt: sql`${currentTimeMs(db)} + ${durationMs}` })
    .where('name', '=', name)
    .where('term', '=', term)
    .returning('term')
    .executeTakeFirst();
  return row !== undefined;
}

/** Lets other instances acquire the lease at once. */
export async function releaseLease(db: Db, { name, fencingToken: term }: Lease): Promise<void> {
  await db.updateTable('leases').set({ expiresAt: 0 }).where('name', '=', name).where('term', '=', term).execute();
}

/** Releases all leases. The caller makes sure that no instance holds any. */
export async function releaseAllLeases(db: Db): Promise<void> {
  await db.updateTable('leases').set({ expiresAt: 0 }).execute();
}

/**
 * Throws if another instance has acquired the lease, and prevents that until the transaction ends. So the writes of a
 * holder are committed before the next holder begins, or not at all.
 */
export async function requireLease(tx: Tx, { name, fencingToken: term }: Lease): Promise<void> {
  const [row] = await selectOwnLease(tx, { name, term });
  if (row !== undefined) return;
  throw new BursarError('lease_lost', `Another instance has acquired the lease ${name}.`, { transient: true });
}

const selectOwnLease = prepareQuery((db, param: Param<{ name: string; term: number }>) =>
  db.selectFrom('leases').select('term').where('name', '=', param('name')).where('term', '=', param('term')).forShare(),
);

/** The clock of the database server is the same for all instances. */
function currentTimeMs(db: Db): RawBuilder<number> {
  return sql<number>`${sql.raw(db.backend.dialect.currentTimeMs)}`;
}
