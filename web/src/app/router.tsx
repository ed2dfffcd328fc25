import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from '@tanstack/react-router';
import { validateAccountSearch } from '../features/account/account-search.ts';
import { validateAuditSearch } from '../features/admin/audit/audit-search.ts';
import { validateUsageSearch } from '../features/admin/usage/usage-search.ts';
import { validateUsersSearch } from '../features/admin/users/users-search.ts';
import { validateJobSearch } from '../features/jobs/job-search.ts';
import { validateJobsSearch } from '../features/jobs/jobs-search.ts';
import { validateStatementSearch } from '../features/quotas/statement-search.ts';
import { validateSubmitSearch } from '../features/submit/submit-search.ts';
import { NotFound, RouteError } from './route-states.tsx';
import { Shell } from './shell.tsx';

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: RouteError });
const getParentRoute = () => root;

/** Every page is a file of its own, which is loaded when it is opened. */
const routes = [
  createRoute({
    getParentRoute,
    path: '/',
    beforeLoad: () => {
      throw redirect({ to: '/jobs', replace: true });
    },
  }),
  createRoute({
    getParentRoute,
    path: '/jobs',
    validateSearch: validateJobsSearch,
    component: lazyRouteComponent(() => import('../features/jobs/jobs-page.tsx'), 'JobsPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/jobs/$hpc/$project/$jobId',
    validateSearch: validateJobSearch,
    component: lazyRouteComponent(() => import('../features/jobs/job-page.tsx'), 'JobPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/submit',
    validateSearch: validateSubmitSearch,
    component: lazyRouteComponent(() => import('../features/submit/submit-page.tsx'), 'SubmitPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/quotas',
    component: lazyRouteComponent(() => import('../features/quotas/quotas-page.tsx'), 'QuotasPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/quotas/$hpc/$project',
    validateSearch: validateStatementSearch,
    component: lazyRouteComponent(() => import('../features/quotas/statement-page.tsx'), 'StatementPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/systems',
    component: lazyRouteComponent(() => import('../features/systems/systems-page.tsx'), 'SystemsPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/account',
    validateSearch: validateAccountSearch,
    component: lazyRouteComponent(() => import('../features/account/account-page.tsx'), 'AccountPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/account/webhooks/$webhookId',
    component: lazyRouteComponent(() => import('../features/account/webhook-page.tsx'), 'WebhookPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/admin/users',
    validateSearch: validateUsersSearch,
    component: lazyRouteComponent(() => import('../features/admin/users/users-page.tsx'), 'UsersPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/admin/users/$userId',
    component: lazyRouteComponent(() => import('../features/admin/users/user-page.tsx'), 'UserPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/admin/projects',
    component: lazyRouteComponent(() => import('../features/admin/projects/projects-page.tsx'), 'ProjectsPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/admin/projects/$hpc/$project',
    component: lazyRouteComponent(() => import('../features/admin/projects/project-page.tsx'), 'ProjectPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/admin/jobs',
    validateSearch: validateJobsSearch,
    component: lazyRouteComponent(() => import('../features/jobs/all-jobs-page.tsx'), 'AllJobsPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/admin/systems',
    component: lazyRouteComponent(() => import('../features/admin/systems-page.tsx'), 'AdminSystemsPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/admin/audit',
    validateSearch: validateAuditSearch,
    component: lazyRouteComponent(() => import('../features/admin/audit/audit-page.tsx'), 'AuditPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/admin/ledger',
    component: lazyRouteComponent(() => import('../features/admin/ledger-page.tsx'), 'LedgerPage'),
  }),
  createRoute({
    getParentRoute,
    path: '/admin/usage',
    validateSearch: validateUsageSearch,
    component: lazyRouteComponent(() => import('../features/admin/usage/usage-page.tsx'), 'UsagePage'),
  }),
] as const;

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: '/app',
  defaultPreload: 'intent',
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
