import { type AuditRecord, readAllPages } from '@bursar/client';
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { bursar } from '../../client/bursar.ts';
import { keys } from '../../client/queries.ts';
import type { ProjectName } from '../../shared/permissions.ts';
import { addDays, startOfDay } from '../../ui/days.ts';
import type { AuditSearch } from './audit/audit-search.ts';

/** No event reports changes by others to these resources. They are read again when the window gets the focus. */
const fresh = { staleTime: 10_000, refetchOnWindowFocus: true } as const;

export const adminKeys = {
  users: ['admin-users'],
  systems: ['admin-systems'],
} as const;

export const usersQuery = queryOptions({
  queryKey: adminKeys.users,
  queryFn: ({ signal }) => bursar.api.listUsers({ signal }),
  ...fresh,
});

export const userQuery = (userId: string) =>
  queryOptions({
    queryKey: [...adminKeys.users, userId],
    queryFn: ({ signal }) => bursar.api.getUser({ path: { user_id: userId }, signal }),
    ...fresh,
  });

export const userTokensQuery = (userId: string) =>
  queryOptions({
    queryKey: [...adminKeys.users, userId, 'tokens'],
    queryFn: ({ signal }) =>
      readAllPages((query) => bursar.api.listTokensOfUser({ path: { user_id: userId }, query, signal })),
    ...fresh,
  });

export const userSessionsQuery = (userId: string) =>
  queryOptions({
    queryKey: [...adminKeys.users, userId, 'sessions'],
    queryFn: ({ signal }) => bursar.api.listSessionsOfUser({ path: { user_id: userId }, signal }),
    ...fresh,
  });

export const adminSystemsQuery = queryOptions({
  queryKey: adminKeys.systems,
  queryFn: ({ signal }) => bursar.api.listSystemsForAdministrators({ signal }),
  staleTime: 10_000,
  // No event reports the health and the queue of a system, and operators watch them here.
  refetchInterval: 15_000,
});

export const auditPageSize = 100;

export const auditQuery = ({ before, newer: _newer, ...filter }: AuditSearch) =>
  queryOptions({
    queryKey: ['admin-audit', filter, before ?? null],
    // One record more than a page says whether there is an older one.
    queryFn: ({ signal }): Promise<AuditRecord[]> =>
      bursar.api.listAuditRecords({ query: auditQueryOf({ ...filter, before, limit: auditPageSize + 1 }), signal }),
    placeholderData: keepPreviousData,
    ...fresh,
  });

/** The filters of the page in the names and forms of the API. The API's `to` is exclusive, and the page's last day is not. */
export function auditQueryOf({ from, to, ...filter }: AuditSearch & { limit?: number }) {
  const query = {
    ...filter,
    from: from && startOfDay(from).toISOString(),
    to: to && startOfDay(addDays(to, 1)).toISOString(),
  };
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));
}

/** In all projects, or in one. */
export const usageQuery = (user: string | undefined, project: ProjectName | undefined) =>
  queryOptions({
    queryKey: ['admin-usage', user ?? null, project ?? null],
    queryFn: ({ signal }) => {
      const query = project === undefined ? {} : { hpc: project.hpc, project_name: project.project };
      return user === undefined
        ? bursar.api.getUsageOfAllUsers({ query, signal })
        : bursar.api.getUsageOfUser({ path: { user_id: user }, query, signal });
    },
    placeholderData: keepPreviousData,
    ...fresh,
  });

export const membersQuery = (hpc: string, project: string) =>
  queryOptions({
    queryKey: [...keys.projects, hpc, project, 'members'],
    queryFn: ({ signal }) => bursar.api.listMembers({ path: { hpc, project_name: project }, signal }),
    ...fresh,
  });
