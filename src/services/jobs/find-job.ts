import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/tables.ts';
import { findJob, type JobRecord } from '../../store/jobs/jobs.ts';
import { type Owner, type Place, projectNamed, type Systems } from '../scope.ts';

/** The job that a path names. Somebody else's does not exist for its reader. */
export async function jobNamed(
  db: Db,
  systems: Systems,
  owner: Owner,
  place: Required<Place>,
  jobId: string,
): Promise<JobRecord> {
  await projectNamed(db, systems, place.hpc, place.project);
  const job = await findJob(db, jobId);
  const isThere = job?.project.hpc === place.hpc && job.project.name === place.project;
  if (job === undefined || !isThere || (owner !== undefined && job.owner !== owner)) throw unknownJob(place);
  return job;
}

export function unknownJob({ hpc, project }: Required<Place>): BursarError {
  return new BursarError(
    'job_unknown',
    `There is no job of that identifier in ${project} on ${hpc}. Use one that the list of jobs shows.`,
  );
}
