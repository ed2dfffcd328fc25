import type { Job } from '@bursar/client';

/** The path of a job in the API. `project_hpc` is the name of the system in capitals. */
export const pathOf = (job: Pick<Job, 'project_hpc' | 'project_name' | 'job_id'>) => ({
  hpc: job.project_hpc.toLowerCase(),
  project_name: job.project_name,
  job_id: job.job_id,
});

/** The parameters of the page of a job. */
export const pageParamsOf = (job: Pick<Job, 'project_hpc' | 'project_name' | 'job_id'>) => ({
  hpc: job.project_hpc.toLowerCase(),
  project: job.project_name,
  jobId: job.job_id,
});
