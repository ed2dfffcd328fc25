import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { bursar } from './bursar.ts';

/** One key for each resource of the API. `applyEvent` invalidates them when an event says that they have changed. */
export const keys = {
  me: ['me'],
  jobs: ['jobs'],
  job: (jobId: string) => ['job', jobId],
  systems: ['systems'],
  accounts: ['accounts'],
  statements: ['statement'],
} as const;

export const meQuery = queryOptions({
  queryKey: keys.me,
  queryFn: ({ signal }) => bursar.api.getMe({ signal }),
  staleTime: 5 * 60_000,
  refetchOnWindowFocus: 'always',
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
