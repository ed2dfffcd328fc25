import type { JobRequest } from '@bursar/client';
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { bursar } from '../../client/bursar.ts';
import { keys } from '../../client/queries.ts';

/** The cost of a job. Events that change a quota make it be read again. */
export const quoteQuery = (request: JobRequest) =>
  queryOptions({
    queryKey: [...keys.accounts, 'quote', request],
    queryFn: ({ signal }) => bursar.quote({ ...request, signal }),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
    gcTime: 60_000,
  });

export const quotaQuery = (hpc: string, project: string) =>
  queryOptions({
    queryKey: [...keys.accounts, 'quota', hpc, project],
    queryFn: ({ signal }) => bursar.api.getQuota({ path: { hpc, project_name: project }, signal }),
  });

/** The request of an earlier job, by the path `hpc/project/job_id`. */
export const earlierJobQuery = (path: string) => {
  const [hpc = '', project_name = '', job_id = ''] = path.split('/');
  return queryOptions({
    queryKey: [...keys.job(job_id), 'request'],
    queryFn: async ({ signal }) => {
      const timeline = await bursar.job({ hpc, project_name, job_id }).timeline({ signal });
      return { hpc, project: project_name, timeline };
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
};
