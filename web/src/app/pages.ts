/** The pages of the navigation. `g` and the key open a page. */
export const pages = [
  { to: '/jobs', title: 'Jobs', key: 'j' },
  { to: '/submit', title: 'Submit', key: 'n' },
  { to: '/quotas', title: 'Quotas', key: 'q' },
  { to: '/systems', title: 'Systems', key: 's' },
  { to: '/account', title: 'Account', key: 'a' },
] as const;

export const adminPages = [
  { to: '/admin/jobs', title: 'All jobs', key: 'J' },
  { to: '/admin/users', title: 'Users', key: 'U' },
  { to: '/admin/projects', title: 'Projects', key: 'P' },
  { to: '/admin/usage', title: 'Usage', key: 'C' },
  { to: '/admin/systems', title: 'Pauses', key: 'S' },
  { to: '/admin/audit', title: 'Audit', key: 'A' },
  { to: '/admin/ledger', title: 'Ledger', key: 'L' },
] as const;
