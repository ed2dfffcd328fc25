import { sql } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import type { NewRow, Row } from '../database/tables.ts';

/**
 * A project's time is granted for periods. Periods do not overlap, so that at most one is current. Jobs are held against
 * its grant.
 */
export type PeriodRecord = Row<'periods'>;

export async function insertPeriod(tx: Tx, period: NewRow<'periods'>): Promise<number> {
  const { id } = await tx.insertInto('periods').values(period).returning('id').executeTakeFirstOrThrow();
  return id;
}

/** Sets the end of a period. Its members will be notified of the new end. */
export async function endPeriod(tx: Tx, id: number, endsAt: number): Promise<void> {
  await tx.updateTable('periods').set({ endsAt, announcedAt: null }).where('id', '=', id).execute();
}

/** Lists the current and future periods of a project in order. */
export async function listOpenPeriods(db: Db, projectId: number, now: number): Promise<PeriodRecord[]> {
  return await db
    .selectFrom('periods')
    .selectAll()
    .where('projectId', '=', projectId)
    .where((eb) => eb.or([eb('endsAt', 'is', null), eb('endsAt', '>', now)]))
    .orderBy('startsAt')
    .execute();
}

/** Finds the period on which new holds are placed. */
export async function findCurrentPeriodId(db: Db, projectId: number, now: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('periods')
    .select('id')
    .where('projectId', '=', projectId)
    .where('startsAt', '<=', now)
    .where((eb) => eb.or([eb('endsAt', 'is', null), eb('endsAt', '>', now)]))
    .executeTakeFirst();
  return row?.id;
}

/** The condition that a joined period includes a time. Accounts that belong to no period have neither start nor end. */
export const isCurrentPeriod = (now: number) => sql<boolean>`coalesce(periods.starts_at, 0) <= ${now}
  and (periods.ends_at is null or periods.ends_at > ${now})`;

/** Lists the periods that end before a time, and whose members have not been notified. */
export async function listPeriodsToNotify(db: Db, now: number, before: number): Promise<PeriodRecord[]> {
  return await db
    .selectFrom('periods')
    .selectAll()
    .where('announcedAt', 'is', null)
    .where('endsAt', '>', now)
    .where('endsAt', '<=', before)
    .execute();
}

/** Returns true to exactly one caller, who notifies the members. */
export async function markPeriodNotified(tx: Tx, id: number, now: number): Promise<boolean> {
  const row = await tx
    .updateTable('periods')
    .set({ announcedAt: now })
    .where('id', '=', id)
    .where('announcedAt', 'is', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}
