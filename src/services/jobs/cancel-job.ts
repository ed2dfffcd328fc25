import { publicJob, toJobReference } from '../../contract/job.ts';
import { isTerminal } from '../../domain/jobs/job.ts';
import { insertEvent } from '../../store/events/events.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import { requestCancellation } from '../../store/jobs/job-queue.ts';
import { type IdempotentRequest, runOnce } from '../idempotency.ts';
import { type CommonDeps, requireSystem } from '../scope.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { auditedJob, interventionOf, type JobAction, requireJob } from './find-job.ts';

type CancelJobDeps = CommonDeps & Pick<ServiceDeps, 'userTopic' | 'wakeDispatcher'>;

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
  action: JobAction,
  idempotency: IdempotentRequest | null,
): Promise<CancelledJob> {
  const { db, systems, userTopic } = deps;
  const { actor, hpc } = action;
  const at = deps.now();
  let notified: string | undefined;
  const result = await runOnce(db, idempotency, at, async (tx) => {
    const job = await requireJob({ db: tx, systems }, action);
    if (await requestCancellation(tx, job.id, { by: actor.userId, at })) {
      const intervention = interventionOf(action, job);
      if (intervention !== undefined) {
        // The owner did not want that end.
        const { json: jobJson, stage } = publicJob(job, requireSystem(systems, hpc).stages);
        const data = { ...toJobReference(job), stage, ...intervention };
        await insertEvent(tx, { userId: job.owner, job: job.id, jobJson, kind: 'job.cancel_requested', data, at });
        await insertAudit(tx, { ...auditedJob(job, intervention), actor, action: 'job.cancel', at });
        notified = job.owner;
      }
      return { json: job.publicJson, hasEnded: false };
    }
    // Already requested, or the job has ended, possibly since it was read.
    const { publicJson, status } = await requireJob({ db: tx, systems }, action);
    return { json: publicJson, hasEnded: isTerminal(status.state) };
  });
  if (notified !== undefined) userTopic.publish(notified);
  if (!result.hasEnded) deps.wakeDispatcher(hpc);
  return result;
}
