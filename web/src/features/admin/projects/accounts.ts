import { queryOptions, useQuery } from '@tanstack/react-query';
import { bursar } from '../../../client/bursar.ts';
import { keys, systemsQuery } from '../../../client/queries.ts';
import type { ChargeUnit, Resource } from '../../../shared/amount.ts';
import type { ProjectName } from '../../../shared/permissions.ts';
import type { AccountFigures } from '../account-figures.tsx';

/** Pool and members of a project, for the current period. Events about the user's own quota invalidate it as well. */
export const projectAccountsQuery = ({ hpc, project }: ProjectName) =>
  queryOptions({
    queryKey: [...keys.accounts, 'project', hpc, project],
    queryFn: ({ signal }) => bursar.api.listAccountsOfProject({ path: { hpc, project_name: project }, signal }),
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
export function useCharge(hpc: string): ChargeUnit {
  const { data: systems } = useQuery(systemsQuery);
  return systems?.find((system) => system.hpc === hpc)?.charge ?? 'core';
}
