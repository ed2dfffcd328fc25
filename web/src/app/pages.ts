import type { Me } from '@bursar/client';
import { type Action, mayAdminister, mayAdministerSomewhere } from '../shared/permissions.ts';

/** The pages of the navigation. `g` and the key open a page. */
export const pages = [
  { to: '/jobs', title: 'Jobs', key: 'j' },
  { to: '/submit', title: 'Submit', key: 'n' },
  { to: '/quotas', title: 'Quotas', key: 'q' },
  { to: '/systems', title: 'Systems', key: 's' },
  { to: '/account', title: 'Account', key: 'a' },
] as const;

const adminPages = [
  { to: '/admin/jobs', title: 'All jobs', key: 'J', action: 'jobs.read', forManagers: true },
  { to: '/admin/users', title: 'Users', key: 'U', action: 'users.read', forManagers: false },
  { to: '/admin/projects', title: 'Projects', key: 'P', action: 'projects.read', forManagers: true },
  { to: '/admin/usage', title: 'Usage', key: 'C', action: 'quotas.read', forManagers: true },
  { to: '/admin/systems', title: 'System control', key: 'S', action: 'systems.read', forManagers: false },
  { to: '/admin/audit', title: 'Audit', key: 'A', action: 'audit.read', forManagers: false },
  { to: '/admin/ledger', title: 'Ledger', key: 'L', action: 'ledger.verify', forManagers: false },
] as const satisfies readonly { to: string; title: string; key: string; action: Action; forManagers: boolean }[];

/** The pages of the administration that the user may read. */
export function adminPagesOf(me: Me) {
  return adminPages.filter(({ action, forManagers }) =>
    forManagers ? mayAdministerSomewhere(me, action) : mayAdminister(me, action),
  );
}
