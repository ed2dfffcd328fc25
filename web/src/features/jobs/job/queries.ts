import { queryOptions, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { keys } from '../../../client/queries.ts';
import type { JobSource } from './job-source.ts';

export const timelineQuery = (source: JobSource) =>
  queryOptions({
    queryKey: [...keys.job(source.path.job_id), 'timeline', source.isAdmin],
    queryFn: ({ signal }) => source.timeline(signal),
  });

export const filesQuery = (source: JobSource) =>
  queryOptions({
    queryKey: [...keys.job(source.path.job_id), 'files', source.isAdmin],
    queryFn: ({ signal }) => source.files(signal),
    // No event reports that a running job has written a file.
    staleTime: 5000,
  });

/** Keeps the job of another user up to date: the events of this page are those of its own user. */
export function useOwnerEvents(source: JobSource, owner: string | undefined): void {
  const queryClient = useQueryClient();
  const { isAdmin, path } = source;
  const jobId = path.job_id;
  useEffect(() => {
    if (!isAdmin || owner === undefined) return;
    const abort = new AbortController();
    const { signal } = abort;
    const refresh = () => void queryClient.invalidateQueries({ queryKey: keys.job(jobId) });
    const follow = async () => {
      const query = { after: 'latest', limit: 1 };
      const { next } = await bursar.api.listEventsOfUser({ path: { user_id: owner }, query, signal });
      // The job may have changed since it was read.
      refresh();
      for await (const event of bursar.events({ user: owner, since: next, signal }))
        if (event.data.job_id === jobId) refresh();
    };
    // Managers of a project may read a job, but not the events of its owner: they reload the page.
    follow().catch(() => undefined);
    return () => abort.abort();
  }, [queryClient, isAdmin, owner, jobId]);
}
