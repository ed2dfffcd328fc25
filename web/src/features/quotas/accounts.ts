import type { ProjectAccount } from '@bursar/client';
import { queryOptions } from '@tanstack/react-query';
import { bursar } from '../../client/bursar.ts';
import { keys } from '../../client/queries.ts';
import { type ChargeUnit, chargeOf } from '../../shared/amount.ts';
import { systemName } from '../../shared/system-name.ts';

export const accountsQuery = queryOptions({
  queryKey: keys.accounts,
  queryFn: ({ signal }) => bursar.api.listAccounts({ signal }),
});

/** The user's quota of one resource. A job needs enough in the user's own account and in the pool of the project. */
export interface ResourceQuota {
  own: ProjectAccount;
  pool: ProjectAccount | undefined;
  /** The amount that a new job can use. */
  free: number;
}

export interface ProjectQuotas {
  hpc: string;
  name: string;
  charge: ChargeUnit;
  quotas: ResourceQuota[];
}

/** One entry for each project, by system and name. */
export function groupByProject(accounts: readonly ProjectAccount[]): ProjectQuotas[] {
  const groups = Map.groupBy(accounts, (account) => `${systemName(account)}/${account.project_name}`);
  const inOrder = [...groups].sort(([one], [other]) => one.localeCompare(other));
  return inOrder.map(([, group]) => ({
    hpc: group[0] ? systemName(group[0]) : '',
    name: group[0]?.project_name ?? '',
    charge: chargeOf(group.find(({ resource }) => resource === 'time')?.unit ?? ''),
    quotas: group.filter(({ user }) => user !== null).map((own) => quotaOf(own, group)),
  }));
}

function quotaOf(own: ProjectAccount, group: readonly ProjectAccount[]): ResourceQuota {
  const pool = group.find(({ user, resource }) => user === null && resource === own.resource);
  return { own, pool, free: Math.max(0, Math.min(own.available, pool?.available ?? own.available)) };
}
