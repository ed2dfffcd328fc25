import type { Selectable } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import type { Tables } from '../database/tables.ts';

/**
 * A project's time is granted for periods. Periods do not overlap, so that at most one is current. Jobs are held against
 * its grant.
 */
export interface PeriodRecord {
  id: number;
  projectId: number;
  startsAt: number;
  /** Null for a period without end. */
  endsAt: number | null;
}

export async function insertPeriod(
  tx: Tx,
  projectId: number,
  startsAt: number,
  endsAt: number | null,
): Promise<number> {
  const { id } = await tx
    .insertInto('periods')
    .values({ project_id: projectId, starts_at: startsAt, ends_at: endsAt, announced_at: null })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Sets the end of a period. Its members will be notified of the new end. */
export async function endPeriod(tx: Tx, id: number, endsAt: number): Promise<void> {
  await tx.updateTable('periods').set({ ends_at: endsAt, announced_at: null }).where('id', '=', id).execute();
}

/** Lists the current and future periods of a project in order. */
export async function listOpenPeriods(db: Db, projectId: number, now: number): Promise<PeriodRecord[]> {
  const rows = await db
    .selectFrom('periods')
    .selectAll()
    .where('project_id', '=', projectId)
    .where((eb) => eb.or([eb('ends_at', 'is', null), eb('ends_at', '>', now)]))
    .orderBy('starts_at')
    .execute();
  return rows.map(toPeriodRecord);
}

/** Finds the period on which new holds are placed. */
export async function findCurrentPeriodId(db: Db, projectId: number, now: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('periods')
    .select('id')
    .where('project_id', '=', projectId)
    .where('starts_at', '<=', now)
    .where((eb) => eb.or([eb('ends_at', 'is', null), eb('ends_at', '>', now)]))
    .executeTakeFirst();
  return row?.id;
}

/** Whether a period includes a time. Accounts that belong to no period have neither start nor end. */
export function isCurrentPeriod(
  { starts_at, ends_at }: { starts_at: number | null; ends_at: number | null },
  now: number,
) {
  return (starts_at ?? 0) <= now && (ends_at === null || ends_at > now);
}

/** Lists the periods that end before a time, and whose members have not been notified. */
export async function listPeriodsToNotify(db: Db, now: number, before: number): Promise<PeriodRecord[]> {
  const rows = await db
    .selectFrom('periods')
    .selectAll()
    .where('announced_at', 'is', null)
    .where('ends_at', '>', now)
    .where('ends_at', '<=', before)
    .execute();
  return rows.map(toPeriodRecord);
}

/** Returns true to exactly one caller, who notifies the members. */
export async function markPeriodNotified(tx: Tx, id: number, now: number): Promise<boolean> {
  const row = await tx
    .updateTable('periods')
    .set({ announced_at: now })
    .where('id', '=', id)
    .where('announced_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

function toPeriodRecord(row: Selectable<Tables['periods']>): PeriodRecord {
  return { id: row.id, projectId: row.project_id, startsAt: row.starts_at, endsAt: row.ends_at };
}
