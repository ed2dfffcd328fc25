import type { BursarEvent } from '@bursar/client';
import type { QueryClient } from '@tanstack/react-query';
import { keys } from './queries.ts';

/** Marks the cached data that an event has changed. Only data that is on the screen is read again at once. */
export function applyEvent(queryClient: QueryClient, { type, data }: BursarEvent): void {
  const invalidate = (queryKey: readonly unknown[]) => void queryClient.invalidateQueries({ queryKey });
  if (type.startsWith('job.')) {
    invalidate(keys.jobs);
    if (data.job_id) invalidate(keys.job(data.job_id));
  }
  if (type.startsWith('quota.') || type === 'job.accepted' || type === 'job.ended' || type === 'job.deleted') {
    invalidate(keys.accounts);
    invalidate(keys.statements);
  }
}
