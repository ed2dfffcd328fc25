import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { bursar } from './bursar.ts';

/** One key for each resource of the API. The handler of events invalidates them. */
export const keys = {
  me: ['me'],
  jobs: ['jobs'],
  job: (jobId: string) => ['job', jobId],
  systems: ['systems'],
  projects: ['projects'],
  accounts: ['accounts'],
  statements: ['statement'],
} as const;

export const meQuery = queryOptions({
  queryKey: keys.me,
  queryFn: ({ signal }) => bursar.api.getMe({ signal }),
  staleTime: 5 * 60_000,
  refetchOnWindowFocus: 'always',
});

export async function readLatestPosition(signal: AbortSignal): Promise<number> {
  return (await bursar.api.listEvents({ query: { after: 'latest', limit: 1 }, signal })).next;
}

/** The position of the event stream when the page was opened. */
export const firstPositionQuery = queryOptions({
  queryKey: ['first-position'],
  queryFn: ({ signal }) => readLatestPosition(signal),
  staleTime: Number.POSITIVE_INFINITY,
});

export const signInOptionsQuery = queryOptions({
  queryKey: ['sign-in-options'],
  queryFn: ({ signal }) => bursar.api.getSignInOptions({ signal }),
});

export const systemsQuery = queryOptions({
  queryKey: keys.systems,
  queryFn: ({ signal }) => bursar.api.listSystems({ signal }),
  // No event reports the health and the queue of a system.
  staleTime: 15_000,
  placeholderData: keepPreviousData,
});

/** All projects, for staff. No event reports their changes. */
export const projectsQuery = queryOptions({
  queryKey: keys.projects,
  queryFn: ({ signal }) => bursar.api.listProjects({ signal }),
  staleTime: 10_000,
  refetchOnWindowFocus: true,
});
