import type { Bursar, Job, File as JobFile, Timeline } from '#client';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { type JobOwner, pathOf } from './find-job.ts';

/** The requests about one job: as its owner, or as somebody who may see the jobs of all users. */
export interface JobAccess {
  read(): Promise<Job>;
  timeline(): Promise<Timeline>;
  files(): Promise<JobFile[]>;
  cancel(reason: string | undefined): Promise<Job>;
  delete(reason: string | undefined): Promise<Job>;
}

export function accessJob({ api }: Bursar, { signal }: Context, job: Job, owner: JobOwner): JobAccess {
  const path = pathOf(job);
  if (owner === 'caller')
    return {
      read: () => api.getJob({ path, signal }),
      timeline: () => api.getJobTimeline({ path, signal }),
      files: () => api.listJobFiles({ path, signal }),
      cancel: () => api.cancelJob({ path, signal }),
      delete: () => api.deleteJob({ path, signal }),
    };
  return {
    read: () => api.getJobOfAnyUser({ path, signal }),
    timeline: () => api.getJobTimelineOfAnyUser({ path, signal }),
    files: () => api.listJobFilesOfAnyUser({ path, signal }),
    cancel: (reason) => api.cancelJobOfAnyUser({ path, body: { reason: requireReason(reason) }, signal }),
    delete: (reason) => api.deleteJobOfAnyUser({ path, query: { reason: requireReason(reason) }, signal }),
  };
}

function requireReason(reason: string | undefined): string {
  if (reason !== undefined) return reason;
  throw usageError('The owner of the job is told why.', 'Give the reason: --reason "…"');
}
