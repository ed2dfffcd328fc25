import { sql } from 'kysely';
import { type AccountBalance, zeroMovement } from '../../domain/accounting/charge.ts';
import type { Db } from '../database/handle.ts';
import { type Param, prepareByShape, prepareQuery } from '../database/prepared.ts';
import { poolHolder } from './accounts.ts';
import { isCurrentPeriod } from './periods.ts';

export interface QuotaRecord {
  id: number;
  userId: string;
  project: { id: number; hpc: string; name: string };
  time: { pool: AccountBalance; cap: AccountBalance };
  space: { pool: AccountBalance; cap: AccountBalance };
}

export interface QuotaFilter {
  /** Administrators leave it out, and get the quotas of all users. */
  userId?: string;
  hpc?: string;
  project?: string;
}

/** Lists one quota for each membership, ordered by descending project and then by membership. */
export async function findQuotas(db: Db, filter: QuotaFilter, now: number): Promise<QuotaRecord[]> {
  return toQuotas(await readQuotaRows(db, filter, now));
}

/** An account of space, or of time in the current period. The times of a period are null for space. */
export type CurrentAccount = Awaited<ReturnType<typeof listProjectAccounts>>[number];

/** One account of a quota. */
export type QuotaRow = Awaited<ReturnType<typeof readQuotaRows>>[number];

/** Reads the current accounts of quotas by one query. */
export async function readQuotaRows(db: Db, filter: QuotaFilter, now: number) {
  const shape = Object.keys(filter).sort().join(' ');
  return await selectQuotaRows(shape)(db, { ...filter, now });
}

/** Returns a version that changes with the quotas: the ids of their accounts, and the version of each. */
export function toQuotasVersion(rows: readonly QuotaRow[]): string {
  return rows.map(({ account, version }) => `${account}.${version}`).join(' ');
}

export function toQuotas(rows: readonly QuotaRow[]): QuotaRecord[] {
  const quotas = new Map<number, QuotaRecord>();
  for (const row of rows) {
    const quota = quotas.get(row.id) ?? emptyQuota(row);
    quotas.set(row.id, quota);
    const { granted, held, posted, overrun } = row;
    quota[row.resource][row.holder === poolHolder ? 'pool' : 'cap'] = { granted, held, posted, overrun };
  }
  return [...quotas.values()];
}

const selectQuotaRows = prepareByShape((shape: string) =>
  prepareQuery((db, param: Param<QuotaFilter & { now: number }>) => {
    const fields = shape.split(' ');
    const selectMemberAccounts = () => {
      let query = db
        .selectFrom('memberships')
        .innerJoin('projects', 'projects.id', 'memberships.projectId')
        .innerJoin('accounts', 'accounts.projectId', 'projects.id')
        .leftJoin('periods', 'periods.id', 'accounts.periodId')
        .select([
          'memberships.id as id',
          'memberships.userId',
          'projects.id as projectId',
          'projects.hpc',
          'projects.name',
        ])
        .select(['accounts.id as account', 'accounts.version', 'accounts.holder', 'accounts.resource'])
        .select(['periods.startsAt', 'periods.endsAt'])
        .select(['accounts.granted', 'accounts.held', 'accounts.posted', 'accounts.overrun'])
        .where(isCurrentPeriod(param('now')));
      if (fields.includes('userId')) query = query.where('memberships.userId', '=', param('userId'));
      if (fields.includes('hpc')) query = query.where('projects.hpc', '=', param('hpc'));
      if (fields.includes('project')) query = query.where('projects.name', '=', param('project'));
      return query;
    };
    // Two queries, so that each uses the unique index of accounts: one query would join each member with all accounts.
    const pools = selectMemberAccounts().where('accounts.holder', '=', poolHolder);
    const caps = selectMemberAccounts().whereRef('accounts.holder', '=', 'memberships.userId');
    return pools.unionAll(caps).orderBy('projectId', 'desc').orderBy('id');
  }),
);

/** Lists the pools of a project and the caps of all its members. The pools are first. */
export async function listProjectAccounts(db: Db, projectId: number, now: number) {
  return await db
    .selectFrom('accounts')
    .leftJoin('periods', 'periods.id', 'accounts.periodId')
    .select(['accounts.holder', 'accounts.resource', 'periods.startsAt', 'periods.endsAt'])
    .select(['accounts.granted', 'accounts.held', 'accounts.posted', 'accounts.overrun'])
    .where('accounts.projectId', '=', projectId)
    .where(isCurrentPeriod(now))
    .orderBy('accounts.holder')
    .orderBy('accounts.resource', 'desc')
    .execute();
}

function emptyQuota(row: QuotaRow): QuotaRecord {
  const zero = { pool: zeroMovement, cap: zeroMovement };
  const project = { id: row.projectId, hpc: row.hpc, name: row.name };
  return { id: row.id, userId: row.userId, project, time: { ...zero }, space: { ...zero } };
}

/**
 * Returns a version of all quotas: it differs whenever any quota may have changed, on any instance. Each account has its
 * own version, so that a change of a pool updates no row of its members; a new member adds accounts, and accounts are
 * never deleted. The periods are counted because quotas also change, without a write, when a period begins or ends.
 */
export async function getQuotasVersion(db: Db, now: number): Promise<string> {
  const { rows } = await sql<{ accounts: number | null; begun: number; ended: number }>`
    select (select sum(version) from accounts) as accounts,
      (select count(*) from periods where starts_at <= ${now}) as begun,
      (select count(*) from periods where ends_at <= ${now}) as ended`.execute(db);
  const [row] = rows;
  return [row?.accounts ?? 0, row?.begun, row?.ended].join('-');
}
