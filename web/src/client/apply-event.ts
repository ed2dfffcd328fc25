import type { BursarEvent } from '@bursar/client';
import { hashKey, type QueryClient, type QueryKey } from '@tanstack/react-query';
import { updateJobPages } from './job-pages.ts';
import { keys } from './queries.ts';

/** Reads that events cause are at least this far apart, however many events arrive. */
const minIntervalMs = 1000;
/** Events that arrive together cause one read. */
const collectMs = 30;

/** Returns a function that brings the cached data up to date with an event. Only data on the screen is read again at once. */
export function createEventHandler(queryClient: QueryClient): (event: BursarEvent) => void {
  const invalidate = createInvalidator(queryClient);
  return (event) => {
    const { type, data } = event;
    if (type.startsWith('job.')) {
      for (const queryKey of updateJobPages(queryClient, event)) invalidate(queryKey);
      if (data.job_id) invalidate(keys.job(data.job_id));
    }
    if (type.startsWith('quota.') || type === 'job.accepted' || type === 'job.ended' || type === 'job.deleted') {
      invalidate(keys.accounts);
      invalidate(keys.statements);
    }
  };
}

/** Coalesces invalidations, so that a sweep of hundreds of jobs does not cause hundreds of requests. */
function createInvalidator(queryClient: QueryClient): (queryKey: QueryKey) => void {
  const pending = new Map<string, QueryKey>();
  let isScheduled = false;
  let flushedAt = Number.NEGATIVE_INFINITY;

  const schedule = () => {
    if (isScheduled) return;
    isScheduled = true;
    setTimeout(flush, Math.max(collectMs, flushedAt + minIntervalMs - performance.now()));
  };
  const flush = () => {
    isScheduled = false;
    flushedAt = performance.now();
    for (const [hash, queryKey] of pending) {
      // A read that is under way ends first. Otherwise events could interrupt a slow one again and again.
      if (queryClient.isFetching({ queryKey, type: 'active' }) > 0) continue;
      pending.delete(hash);
      void queryClient.invalidateQueries({ queryKey });
    }
    if (pending.size > 0) schedule();
  };
  return (queryKey) => {
    pending.set(hashKey(queryKey), queryKey);
    schedule();
  };
}
