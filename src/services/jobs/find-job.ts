import { BursarError } from '../../domain/errors.ts';
import type { SiteRole } from '../../domain/identity/policy.ts';
import type { Db } from '../../store/database/handle.ts';
import { findJob, type JobRecord } from '../../store/jobs/jobs.ts';
import type { Actor } from '../identity/actor.ts';
import { RefusedAccess } from '../identity/refused-access.ts';
import { type Owner, type PathScope, requireProject, type Systems } from '../scope.ts';

/** A job that a path names, and the user who acts on it: its owner, or somebody with a role. */
export interface JobAction {
  actor: Actor;
  owner: Owner;
  scope: Required<PathScope>;
  jobId: string;
  /** On the paths for jobs of any user. */
  intervention?: Intervention;
}

/** Why, and in which role, somebody acts on the job of another user. The owner is told both, but not the name. */
export interface Intervention {
  reason: string;
  by: SiteRole | 'project_manager';
}

/** Undefined if the owner acts: what owners do with their jobs is not audited. */
export function interventionOf({ actor, intervention }: JobAction, job: JobRecord): Intervention | undefined {
  if (actor.userId === job.owner) return undefined;
  if (intervention === undefined) throw new Error('somebody else than the owner acts without a reason');
  return intervention;
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
  const isOthers = job !== undefined && owner !== undefined && job.owner !== owner;
  if (job === undefined || !isInScope || isOthers) throw jobNotFound(scope, isOthers);
  return job;
}

function jobNotFound({ hpc, project }: Required<PathScope>, isOthers: boolean): BursarError {
  return new BursarError(
    'job_unknown',
    `There is no job with this identifier in ${project} on ${hpc}. Use an identifier from the list of jobs.`,
    isOthers ? { cause: new RefusedAccess('the job of another user') } : {},
  );
}

/** Subject and details of an audit record, for somebody who acts on the job of a user. */
export function auditedJob({ owner, project, jobId }: JobRecord, { reason }: Intervention) {
  return { subject: `${project.hpc}/${project.name}/${jobId}`, details: { owner, reason } };
}
