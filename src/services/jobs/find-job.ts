import { BursarError } from '../../domain/errors.ts';
import type { SiteRole } from '../../domain/identity/policy.ts';
import { findJob, type JobRecord } from '../../store/jobs/jobs.ts';
import type { Actor } from '../identity/actor.ts';
import { RefusedAccess } from '../identity/refused-access.ts';
import { type Owner, type ProjectScope, type ReadDeps, requireProject } from '../scope.ts';

/** A job that a path names. */
export interface JobPath extends ProjectScope {
  owner: Owner;
  jobId: string;
}

/** A job, and the user who acts on it: its owner, or somebody with a role. */
export interface JobAction extends JobPath {
  actor: Actor;
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
export async function requireJob(deps: ReadDeps, { owner, hpc, project, jobId }: JobPath): Promise<JobRecord> {
  await requireProject(deps, { hpc, project });
  const job = await findJob(deps.db, jobId);
  const isOthers = job !== undefined && owner !== undefined && job.owner !== owner;
  if (job?.project.hpc === hpc && job.project.name === project && !isOthers) return job;
  throw new BursarError(
    'job_unknown',
    `There is no job with this identifier in ${project} on ${hpc}. Use an identifier from the list of jobs.`,
    isOthers ? { cause: new RefusedAccess('the job of another user') } : {},
  );
}

/** Subject and details of an audit record, for somebody who acts on the job of a user. */
export function auditedJob({ owner, project, jobId }: JobRecord, { reason }: Intervention) {
  return { subject: `${project.hpc}/${project.name}/${jobId}`, details: { owner, reason } };
}
