import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { findJob, type JobRecord } from '../../store/jobs/jobs.ts';
import type { Actor } from '../identity/actor.ts';
import { type Owner, type PathScope, requireProject, type Systems } from '../scope.ts';

/** A job that a path names, and the user who acts on it: its owner or an administrator. */
export interface JobAction {
  actor: Actor;
  owner: Owner;
  scope: Required<PathScope>;
  jobId: string;
}

/** The job that a path names. A job of another owner is reported as unknown. */
export async function requireJob(
  db: Db,
  systems: Systems,
  owner: Owner,
  scope: Required<PathScope>,
  jobId: string,
): Promise<JobRecord> {
  await requireProject(db, systems, scope.hpc, scope.project);
  const job = await findJob(db, jobId);
  const isInScope = job?.project.hpc === scope.hpc && job.project.name === scope.project;
  if (job === undefined || !isInScope || (owner !== undefined && job.owner !== owner)) throw jobNotFound(scope);
  return job;
}

export function jobNotFound({ hpc, project }: Required<PathScope>): BursarError {
  return new BursarError(
    'job_unknown',
    `There is no job with this identifier in ${project} on ${hpc}. Use an identifier from the list of jobs.`,
  );
}

/** Subject and details of an audit record, for an administrator who acts on the job of a user. */
export function auditedJob({ owner, project, jobId }: JobRecord) {
  return { subject: `${project.hpc}/${project.name}/${jobId}`, details: { owner } };
}
