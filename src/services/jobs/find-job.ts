import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { findJob, type JobRecord } from '../../store/jobs/jobs.ts';
import { type Owner, type PathScope, requireProject, type Systems } from '../scope.ts';

/** The job that a path names. Somebody else's does not exist for its reader. */
export async function requireJob(
  db: Db,
  systems: Systems,
  owner: Owner,
  place: Required<PathScope>,
  jobId: string,
): Promise<JobRecord> {
  await requireProject(db, systems, place.hpc, place.project);
  const job = await findJob(db, jobId);
  const isThere = job?.project.hpc === place.hpc && job.project.name === place.project;
  if (job === undefined || !isThere || (owner !== undefined && job.owner !== owner)) throw jobNotFound(place);
  return job;
}

export function jobNotFound({ hpc, project }: Required<PathScope>): BursarError {
  return new BursarError(
    'job_unknown',
    `There is no job of that identifier in ${project} on ${hpc}. Use one that the list of jobs shows.`,
  );
}
