import { sql } from 'kysely';
import type { Db } from '../database/handle.ts';
import type { Resource } from '../database/tables.ts';

/** A ledger entry of a statement, in seconds or bytes. */
export type MovementRecord = Awaited<ReturnType<typeof listMovements>>[number];

export interface StatementRange {
  from: number;
  to: number;
}

/** The change of the available amount. */
const change = sql<number>`entries.granted - entries.held - entries.posted - entries.overrun`;
/** The amount that was used; negative if it was refunded or freed. */
const used = sql<number>`entries.posted + entries.overrun`;
/** A grant for a future period takes effect when the period begins. */
const effectiveAt = sql<number>`
  case when periods.starts_at > entries.at then periods.starts_at else entries.at end`;

/** A user's accounts in a project, of all periods. */
interface Caps {
  projectId: number;
  userId: string;
  resource: Resource;
}

/** Lists the movements of a user's caps in order. */
export async function listMovements(db: Db, caps: Caps, { from, to }: StatementRange) {
  return await selectEntries(db, caps)
    .leftJoin('jobs', 'jobs.id', 'entries.job')
    .select(['entries.id', effectiveAt.as('at'), 'entries.kind', 'jobs.jobId', 'entries.actor', 'entries.reason'])
    .select([change.as('change'), used.as('used')])
    .where(effectiveAt, '>=', from)
    .where(effectiveAt, '<', to)
    .orderBy('at')
    .orderBy('entries.id')
    .execute();
}

/** Returns the amount that was available just before a time. */
export async function getBalanceBefore(db: Db, caps: Caps, time: number): Promise<number> {
  const { balance } = await selectEntries(db, caps)
    .select(sql<number | null>`sum(${change})`.as('balance'))
    .where(effectiveAt, '<', time)
    .executeTakeFirstOrThrow();
  return Number(balance ?? 0);
}

function selectEntries(db: Db, { projectId, userId, resource }: Caps) {
  return db
    .selectFrom('entries')
    .innerJoin('accounts', 'accounts.id', 'entries.accountId')
    .leftJoin('periods', 'periods.id', 'accounts.periodId')
    .where('accounts.projectId', '=', projectId)
    .where('accounts.holder', '=', userId)
    .where('accounts.resource', '=', resource);
}
