import { publicJob, toJobReference } from '../../contract/job.ts';
import { calculateSettlement, toTimeLimitSeconds } from '../../domain/accounting/charge.ts';
import type { JobEnd, Outcome } from '../../domain/jobs/job.ts';
import type { ObservedStatus } from '../../domain/jobs/transition.ts';
import { insertEvent } from '../../store/events/events.ts';
import { deleteInput } from '../../store/jobs/inputs.ts';
import { type JobRecord, updateStatus } from '../../store/jobs/jobs.ts';
import { settle } from '../../store/ledger/ledger.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

export interface StatusChange {
  next: ObservedStatus;
  /** Size of the job's workspace. Required when the job has ended. */
  spaceBytes?: number;
  /** The engine's id of the job, set when the job has just been submitted. */
  engineRef?: string;
  /** The engine's own description of the status, unchanged. */
  engineMessage?: string | undefined;
}

/**
 * Stores a new job status, its event and, at the end of the job, the settlement of its hold, in one transaction, and tells the
 * owner. Returns false and writes nothing if the job has been changed by another process meanwhile.
 */
export async function advanceJob(
  { lease, system, publish, now }: Pick<LeasedSystemDeps, 'lease' | 'system' | 'publish' | 'now'>,
  job: JobRecord,
  { next, spaceBytes = 0, engineRef, engineMessage }: StatusChange,
): Promise<boolean> {
  const at = now();
  const isStored = await lease.transaction(async (tx) => {
    const updatedJob = publicJob({ ...job, status: next }, system.stages);
    if (!(await updateStatus(tx, job, next, updatedJob, engineRef))) return false;
    // The zip is not needed any more: the engine has all files of the job, or the job has ended without being submitted.
    if (job.hasInput && job.status.state === 'submitting') await deleteInput(tx, job.id);
    const data: Record<string, unknown> = {
      ...toJobReference(job),
      stage: updatedJob.stage,
      engine_id: engineRef ?? job.engineRef,
      scheduler_message: engineMessage ?? null,
    };
    if (next.state === 'ended') {
      const settlement = calculateSettlement(
        next,
        { requestedUnits: job.units, runtimeSeconds: toTimeLimitSeconds(job.request.runtimeHours) },
        system.charge,
      );
      await settle(tx, job, { ...settlement, spaceBytes }, { actor: 'bursar', at });
      Object.assign(data, {
        outcome: next.outcome,
        reason: next.reason,
        exit_code: next.exitCode,
        elapsed_seconds: next.elapsedSeconds,
        charged_seconds: settlement.timeSeconds,
        space_bytes: spaceBytes,
      });
    }
    const kind = `job.${next.state}` as const;
    await insertEvent(tx, { userId: job.owner, job: job.id, jobJson: updatedJob.json, kind, data, at });
    return true;
  });
  if (isStored) publish(job.owner);
  return isStored;
}

/** The end of a job that ran for no time, as far as is known: it is not charged. */
export const endWithoutUsage = (outcome: Outcome, reason: string): Omit<JobEnd, 'endedAt'> => ({
  outcome,
  reason,
  exitCode: null,
  startedAt: null,
  elapsedSeconds: 0,
});

/** Lets submitted jobs start. A failure is only logged: the watcher sees that the job is still held, and retries. */
export async function releaseJobs(
  { engine, system, log }: LeasedSystemDeps,
  refs: ReadonlyMap<string, string>,
  signal: AbortSignal,
): Promise<void> {
  await engine.release(refs, signal).catch((error) => {
    log.warn({ err: error, hpc: system.name, jobIds: [...refs.keys()] }, 'job release failed, will retry');
  });
}
