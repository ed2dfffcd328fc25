import type { Account, System } from '@bursar/client';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { bursar } from '../../../client/bursar.ts';
import { keys, systemsQuery } from '../../../client/queries.ts';
import type { Resource } from '../../../shared/amount.ts';
import type { ProjectName } from '../../../shared/permissions.ts';

export type Charge = System['charge'];
export interface ProjectAccount extends Account {
  starts: string | null;
  ends: string | null;
}

/** The figures of an account that dialogs and tables show. */
export type AccountFigures = Pick<ProjectAccount, 'user' | 'resource' | 'granted' | 'held' | 'used' | 'available'>;

/** Pool and members of a project, for the current period. Events about the user's own quota invalidate it as well. */
export const projectAccountsQuery = ({ hpc, project }: ProjectName) =>
  queryOptions({
    queryKey: [...keys.accounts, 'project', hpc, project],
    queryFn: ({ signal }) => readAccounts({ hpc, project }, signal),
    staleTime: 10_000,
    refetchOnWindowFocus: true,
  });

/** Null is the pool. */
export function findAccount<Account extends AccountFigures>(
  accounts: readonly Account[],
  user: string | null,
  resource: Resource,
): Account | undefined {
  return accounts.find((account) => account.user === user && account.resource === resource);
}

/** The part of the pool that is granted to no member. */
export function reserveOf(accounts: readonly AccountFigures[], resource: Resource): number {
  const granted = (isPool: boolean) =>
    accounts
      .filter((account) => account.resource === resource && (account.user === null) === isPool)
      .reduce((sum, account) => sum + account.granted, 0);
  return granted(true) - granted(false);
}

/** The unit in which a system charges time. */
export function useCharge(hpc: string): Charge {
  const { data: systems } = useQuery(systemsQuery);
  return systems?.find((system) => system.hpc === hpc)?.charge ?? 'core';
}

async function readAccounts({ hpc, project }: ProjectName, signal: AbortSignal): Promise<ProjectAccount[]> {
  const quotas = await bursar.api.listQuotasOfAllUsers({ query: { hpc, project_name: project }, signal });
  return quotas.flatMap(({ user, time_left: time, space_left: space }) => [
    {
      user,
      resource: 'time',
      unit: 'seconds',
      granted: time,
      held: 0,
      used: 0,
      available: time,
      starts: null,
      ends: null,
    },
    {
      user,
      resource: 'space',
      unit: 'KB',
      granted: space,
      held: 0,
      used: 0,
      available: space,
      starts: null,
      ends: null,
    },
  ]);
}
