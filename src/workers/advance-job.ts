import { toJobReference } from '../contract/event.ts';
import { publicJob } from '../contract/job.ts';
import { calculateSettlement } from '../domain/accounting/settlement.ts';
import type { ObservedStatus } from '../domain/jobs/transition.ts';
import type { HpcSystem } from '../domain/systems/system.ts';
import { insertEvent } from '../store/events/events.ts';
import { removeInput } from '../store/jobs/inputs.ts';
import { type JobRecord, updateStatus } from '../store/jobs/jobs.ts';
import { settle } from '../store/ledger/ledger.ts';
import type { HeldLease } from './hold-lease.ts';

export interface Advance {
  next: ObservedStatus;
  now: number;
  /** What its workspace holds; needed when the job has ended. */
  spaceBytes?: number;
  /** The engine's own id of the job, when it has just become known. */
  engineRef?: string;
  /** What the engine itself says of the job, as it says it. */
  engineWords?: string;
}

/**
 * Moves a job on: its row, its event and, at the end, the settlement of its hold, in one transaction. False, and
 * nothing written, when somebody else has moved it on already.
 */
export async function advanceJob(
  tenure: HeldLease,
  job: JobRecord,
  { stages: words, charge }: HpcSystem,
  { next, now, spaceBytes = 0, engineRef, engineWords }: Advance,
): Promise<boolean> {
  return await tenure.transaction(async (tx) => {
    const shown = publicJob({ ...job, status: next }, words);
    if (!(await updateStatus(tx, job, next, shown, engineRef))) return false;
    // Its engine has it, with all its files, or nobody will.
    if (job.hasInput && job.status.state === 'submitting') await removeInput(tx, job.id);
    const data: Record<string, unknown> = {
      ...toJobReference(job),
      stage: shown.stage,
      engine_id: engineRef ?? job.engineRef,
      engine_words: engineWords ?? null,
    };
    if (next.state === 'ended') {
      const usage = calculateSettlement(next, job.units, charge);
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
    const kind = `job.${next.state}` as const;
    await insertEvent(tx, { userId: job.owner, job: job.id, jobJson: shown.json, kind, data, at: now });
    return true;
  });
}
