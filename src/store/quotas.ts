import type { AccountFigures } from '../domain/settlement.ts';
import { poolHolder } from './accounts.ts';
import type { Db, Resource } from './tables.ts';

export interface QuotaRecord {
  id: number;
  userId: string;
  project: { id: number; hpc: string; name: string };
  time: { pool: AccountFigures; cap: AccountFigures };
  space: { pool: AccountFigures; cap: AccountFigures };
}

export interface QuotaFilter {
  userId: string;
  hpc?: string;
  project?: string;
}

/** A user's quotas, one a membership, by descending project, in one query. */
export async function findQuotas(db: Db, filter: QuotaFilter, now: number): Promise<QuotaRecord[]> {
  let query = db
    .selectFrom('memberships')
    .innerJoin('projects', 'projects.id', 'memberships.project_id')
    .innerJoin('accounts', 'accounts.project_id', 'projects.id')
    .leftJoin('periods', 'periods.id', 'accounts.period_id')
    .select(['memberships.id', 'projects.id as project_id', 'projects.hpc', 'projects.name'])
    .select(['accounts.holder', 'accounts.resource'])
    .select(['accounts.granted', 'accounts.held', 'accounts.posted', 'accounts.overrun'])
    .where('memberships.user_id', '=', filter.userId)
    .where('accounts.holder', 'in', [poolHolder, filter.userId])
    .where((eb) => eb.or([eb('periods.id', 'is', null), eb('periods.starts_at', '<=', now)]))
    .where((eb) => eb.or([eb('periods.ends_at', 'is', null), eb('periods.ends_at', '>', now)]))
    .orderBy('projects.id', 'desc');
  if (filter.hpc !== undefined) query = query.where('projects.hpc', '=', filter.hpc);
  if (filter.project !== undefined) query = query.where('projects.name', '=', filter.project);

  const quotas = new Map<number, QuotaRecord>();
  for (const row of await query.execute()) {
    const quota = quotas.get(row.id) ?? emptyQuota(row.id, filter.userId, row);
    quotas.set(row.id, quota);
    const { granted, held, posted, overrun } = row;
    quota[row.resource][row.holder === poolHolder ? 'pool' : 'cap'] = { granted, held, posted, overrun };
  }
  return [...quotas.values()];
}

function emptyQuota(id: number, userId: string, row: { project_id: number; hpc: string; name: string }): QuotaRecord {
  const none = { granted: 0, held: 0, posted: 0, overrun: 0 };
  const side: Record<Resource, { pool: AccountFigures; cap: AccountFigures }> = {
    time: { pool: none, cap: none },
    space: { pool: none, cap: none },
  };
  return { id, userId, project: { id: row.project_id, hpc: row.hpc, name: row.name }, ...side };
}
