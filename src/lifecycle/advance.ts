import { jobView } from '../contract/job.ts';
import type { JobStatus } from '../domain/job.ts';
import { usageOf } from '../domain/settlement.ts';
import type { HpcSystem } from '../domain/system.ts';
import { insertEvent } from '../store/events.ts';
import { type JobRecord, updateStatus } from '../store/jobs.ts';
import { settle } from '../store/ledger.ts';
import type { Db } from '../store/tables.ts';

export interface Advance {
  next: JobStatus;
  now: number;
  /** What its workspace holds; needed when the job has ended. */
  spaceBytes?: number;
  /** The lease that the caller works under, if it does. */
  leaseOwner?: string;
  /** The engine's own id of the job, when it has just become known. */
  engineRef?: string;
}

/**
 * Moves a job on: its row, its event and, at the end, the settlement of its hold, in one transaction. False, and
 * nothing written, when somebody else has moved it on already.
 */
export async function advanceJob(
  db: Db,
  job: JobRecord,
  { stages: words, charge }: HpcSystem,
  { next, now, spaceBytes = 0, leaseOwner, engineRef }: Advance,
): Promise<boolean> {
  const work = {
    ...(leaseOwner === undefined ? {} : { leaseOwner }),
    ...(engineRef === undefined ? {} : { engineRef }),
  };
  return await db.transaction().execute(async (tx) => {
    const shown = jobView({ ...job, status: next }, words);
    if (!(await updateStatus(tx, job, next, shown, work))) return false;
    const data: Record<string, unknown> = { job_id: job.jobId, stage: shown.stage };
    if (next.state === 'ended') {
      const usage = usageOf(next, job.units, charge);
      await settle(tx, job, { ...usage, spaceBytes }, { actor: 'bursar', at: now });
      Object.assign(data, {
        outcome: next.outcome,
        reason: next.reason,
        exit_code: next.exitCode,
        elapsed_seconds: next.elapsedSeconds,
        charged_seconds: usage.timeSeconds,
        space_bytes: spaceBytes,
      });
    }
    await insertEvent(tx, { userId: job.owner, job: job.id, kind: `job.${next.state}`, data, at: now });
    return true;
  });
}
