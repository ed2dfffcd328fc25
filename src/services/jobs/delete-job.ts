import { publicJob, toJobReference } from '../../contract/job.ts';
import { BursarError } from '../../domain/errors.ts';
import { isTerminal } from '../../domain/jobs/job.ts';
import type { Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { insertEvent } from '../../store/events/events.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import { type JobRecord, updateStatus } from '../../store/jobs/jobs.ts';
import { freeSpace } from '../../store/ledger/ledger.ts';
import type { Actor } from '../identity/actor.ts';
import { requireSystem } from '../scope.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { auditedJob, type Intervention, interventionOf, type JobAction, requireJob } from './find-job.ts';

interface DeleteFilesDeps extends Pick<ServiceDeps, 'systems' | 'removeFiles' | 'now'> {
  /** Runs a transaction; that of a worker commits only while the worker holds its lease. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

type DeleteJobDeps = Pick<ServiceDeps, 'db' | 'systems' | 'removeFiles' | 'now' | 'userTopic'>;

/** Deletes the files of a finished job and returns its public JSON. Repeating it is harmless. */
export async function deleteJob(deps: DeleteJobDeps, action: JobAction): Promise<string> {
  const { actor } = action;
  const job = await requireJob(deps, action);
  if (!isTerminal(job.status.state)) {
    const message = `The job has not ended. Cancel it first with POST …/${job.jobId}/cancel/, and delete it when it has ended.`;
    throw new BursarError('job_not_finished', message);
  }
  try {
    const transaction: DeleteFilesDeps['transaction'] = (work) => inTransaction(deps.db, work);
    const intervention = interventionOf(action, job);
    return await deleteFiles({ ...deps, transaction }, job, {
      actor: actor.userId,
      reason: `files of ${job.jobId} deleted`,
      ...(intervention && { audited: { actor, intervention } }),
    });
  } finally {
    deps.userTopic.publish(job.owner);
  }
}

interface Deletion {
  /** For the ledger. */
  actor: string;
  reason: string;
  /** If somebody else than the owner deletes the files. */
  audited?: { actor: Actor; intervention: Intervention };
}

/**
 * Deletes a finished job in the database, and returns its public JSON. Its files are removed afterwards, in the background:
 * nobody waits for the file system. Files that remain after a crash or a failure are left to the cleanup of the system.
 */
export async function deleteFiles(
  { transaction, systems, removeFiles, now }: DeleteFilesDeps,
  job: JobRecord,
  { actor, reason, audited }: Deletion,
): Promise<string> {
  const stageNames = requireSystem(systems, job.project.hpc).stages;
  const { status } = job;
  if (status.state !== 'ended' && status.state !== 'deleted') return publicJob(job, stageNames).json;
  const next = { ...status, state: 'deleted' } as const;
  const deletedJob = publicJob({ ...job, status: next }, stageNames);
  const at = now();
  await transaction(async (tx) => {
    if (status.state === 'deleted' || !(await updateStatus(tx, job, next, deletedJob))) return;
    await freeSpace(tx, job, { actor, reason, at });
    const data = { ...toJobReference(job), stage: deletedJob.stage, ...audited?.intervention };
    await insertEvent(tx, { userId: job.owner, job: job.id, jobJson: deletedJob.json, kind: 'job.deleted', data, at });
    if (audited === undefined) return;
    const record = { ...auditedJob(job, audited.intervention), actor: audited.actor, action: 'job.delete', at };
    await insertAudit(tx, record);
  });
  removeFiles(job.project.hpc, job.jobId);
  return deletedJob.json;
}
