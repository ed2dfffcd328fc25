import type { Job } from '@bursar/client';
import { systemName } from './system-name.ts';

/** The path of a job in the API. */
export const pathOf = (job: Pick<Job, 'project_hpc' | 'project_name' | 'job_id'>) => ({
  hpc: systemName(job),
  project_name: job.project_name,
  job_id: job.job_id,
});

/** The parameters of the page of a job. */
export const pageParamsOf = (job: Pick<Job, 'project_hpc' | 'project_name' | 'job_id'>) => ({
  hpc: systemName(job),
  project: job.project_name,
  jobId: job.job_id,
});
