import type { ListJobSummariesData } from '@bursar/client';
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { bursar } from '../../../client/bursar.ts';
import { type JobPageFilter, jobPageKey } from '../../../client/job-pages.ts';

/** A page of one's own jobs. Events keep it up to date. */
export const ownJobsQuery = (filter: JobPageFilter) =>
  queryOptions({
    queryKey: jobPageKey('own', filter),
    queryFn: ({ signal }) => bursar.api.listJobSummaries({ query: toQuery(filter), signal }),
    placeholderData: keepPreviousData,
  });

/** A page of the jobs of all users. There are no events for the jobs of others: it is read again when the user comes back. */
export const allJobsQuery = (filter: JobPageFilter) =>
  queryOptions({
    queryKey: jobPageKey('all', filter),
    queryFn: ({ signal }) => {
      const user = filter.user === undefined ? {} : { user_id: filter.user };
      return bursar.api.listJobSummariesOfAllUsers({ query: { ...toQuery(filter), ...user }, signal });
    },
    placeholderData: keepPreviousData,
    staleTime: 0,
  });

const stateQueries = { active: { terminal: false }, ended: { terminal: true }, failed: { failed: true } } as const;

function toQuery(filter: JobPageFilter): NonNullable<ListJobSummariesData['query']> {
  const { search, hpc, project, state, tag, cursor } = filter;
  return {
    ...(search === undefined ? {} : { search }),
    ...(hpc === undefined ? {} : { hpc }),
    ...(hpc === undefined || project === undefined ? {} : { project_name: project }),
    ...(state === undefined ? {} : stateQueries[state]),
    ...(tag === undefined ? {} : { tag: [tag] }),
    ...(cursor === undefined ? {} : { cursor }),
  };
}
