import { textOf } from '../../../ui/search-params.ts';

export const userRoles = ['user', 'auditor', 'operator', 'administrator'] as const;
export type Role = (typeof userRoles)[number];

/** The filters of the list of users, in the query of the page. */
export interface UsersSearch {
  search?: string | undefined;
  role?: Role | undefined;
  state?: 'enabled' | 'disabled' | undefined;
}

const states = ['enabled', 'disabled'] as const;

export function validateUsersSearch(query: Record<string, unknown>): UsersSearch {
  return {
    search: textOf(query.search),
    role: userRoles.find((role) => role === query.role),
    state: states.find((state) => state === query.state),
  };
}
