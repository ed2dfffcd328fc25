import type { Job } from '@bursar/client';

/** The title of a job. Jobs without one are named by their identifier. */
export const jobName = (job: Pick<Job, 'title' | 'job_id'>) => job.title.trim() || job.job_id;
