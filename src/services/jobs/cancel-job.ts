import { isTerminal } from '../../domain/jobs/job.ts';
import type { Db } from '../../store/database/handle.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import { requestCancellation } from '../../store/jobs/job-queue.ts';
import { type IdempotentRequest, runOnce } from '../idempotency.ts';
import type { Systems } from '../scope.ts';
import { auditedJob, type JobAction, requireJob } from './find-job.ts';

export interface CancelJobDeps {
  db: Db;
  systems: Systems;
  now(): number;
  /** Called when a cancellation is stored, so that the dispatcher and the canceller poll at once. */
  wakeDispatcher(hpc: string): void;
}

/** The public JSON of the job. `hasEnded` is false as long as the system has not ended it. */
export interface CancelledJob {
  json: string;
  hasEnded: boolean;
}

/**
 * Requests the cancellation of a job. The request is durable when this returns; the workers carry it out, so nothing here
 * waits for the system. Repeating it is harmless: a job that has ended, or is deleted, is returned unchanged. Files are
 * never touched.
 */
export async function cancelJob(
  deps: CancelJobDeps,
  { actor, owner, scope, jobId }: JobAction,
  idempotency: IdempotentRequest | null,
): Promise<CancelledJob> {
  const { db, systems } = deps;
  const now = deps.now();
  const result = await runOnce(db, idempotency, now, async (tx) => {
    const job = await requireJob(tx, systems, owner, scope, jobId);
    if (await requestCancellation(tx, job.id, { by: actor.userId, at: now })) {
      const audit = { ...auditedJob(job), actor: actor.userId, act: 'job.cancel', at: now };
      if (actor.userId !== job.owner) await insertAudit(tx, audit);
      return { json: job.publicJson, hasEnded: false };
    }
    // Already requested, or the job has ended, possibly since it was read.
    const { publicJson, status } = await requireJob(tx, systems, owner, scope, jobId);
    return { json: publicJson, hasEnded: isTerminal(status.state) };
  });
  if (!result.hasEnded) deps.wakeDispatcher(scope.hpc);
  return result;
}
