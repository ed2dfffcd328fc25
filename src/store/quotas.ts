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
  /** Left out: everybody's, for administrators. */
  userId?: string;
  hpc?: string;
  project?: string;
}

/** Quotas, one a membership, by descending project and then by user, in one query. */
export async function findQuotas(db: Db, filter: QuotaFilter, now: number): Promise<QuotaRecord[]> {
  let query = db
    .selectFrom('memberships')
    .innerJoin('projects', 'projects.id', 'memberships.project_id')
    .innerJoin('accounts', 'accounts.project_id', 'projects.id')
    .leftJoin('periods', 'periods.id', 'accounts.period_id')
    .select(['memberships.id', 'memberships.user_id', 'projects.id as project_id', 'projects.hpc', 'projects.name'])
    .select(['accounts.holder', 'accounts.resource'])
    .select(['accounts.granted', 'accounts.held', 'accounts.posted', 'accounts.overrun'])
    .where((eb) => eb.or([eb('periods.id', 'is', null), eb('periods.starts_at', '<=', now)]))
    .where((eb) => eb.or([eb('periods.ends_at', 'is', null), eb('periods.ends_at', '>', now)]))
    .orderBy('projects.id', 'desc')
    .orderBy('memberships.id');
  if (filter.userId === undefined) {
    query = query.where((eb) =>
      eb.or([eb('accounts.holder', '=', poolHolder), eb('accounts.holder', '=', eb.ref('memberships.user_id'))]),
    );
  } else {
    // Said twice, so that the accounts are found by their key instead of among those of all members.
    query = query
      .where('memberships.user_id', '=', filter.userId)
      .where('accounts.holder', 'in', [poolHolder, filter.userId]);
  }
  if (filter.hpc !== undefined) query = query.where('projects.hpc', '=', filter.hpc);
  if (filter.project !== undefined) query = query.where('projects.name', '=', filter.project);

  const quotas = new Map<number, QuotaRecord>();
  for (const row of await query.execute()) {
    const quota = quotas.get(row.id) ?? emptyQuota(row);
    quotas.set(row.id, quota);
    const { granted, held, posted, overrun } = row;
    quota[row.resource][row.holder === poolHolder ? 'pool' : 'cap'] = { granted, held, posted, overrun };
  }
  return [...quotas.values()];
}

interface QuotaRow {
  id: number;
  user_id: string;
  project_id: number;
  hpc: string;
  name: string;
}

function emptyQuota(row: QuotaRow): QuotaRecord {
  const none = { granted: 0, held: 0, posted: 0, overrun: 0 };
  const side: Record<Resource, { pool: AccountFigures; cap: AccountFigures }> = {
    time: { pool: none, cap: none },
    space: { pool: none, cap: none },
  };
  const project = { id: row.project_id, hpc: row.hpc, name: row.name };
  return { id: row.id, userId: row.user_id, project, ...side };
}
