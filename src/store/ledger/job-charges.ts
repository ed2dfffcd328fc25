import type { Db } from '../database/handle.ts';
import { getHold, type JobId } from './ledger.ts';

/** The hold, the charge and the refunds of a job in seconds. */
export interface JobCharges {
  heldSeconds: number;
  /** Null before the job has ended. */
  resolution: { timeSeconds: number; spaceBytes: number; rule: string } | null;
  refunds: { at: number; seconds: number; reason: string }[];
}

export async function getJobCharges(db: Db, job: JobId): Promise<JobCharges> {
  const hold = await getHold(db, job);
  const resolution = await db
    .selectFrom('resolutions')
    .select(['timeSeconds', 'spaceBytes', 'rule'])
    .where('holdId', '=', hold.id)
    .executeTakeFirst();
  const refunds = await db
    .selectFrom('entries')
    .select(['at', 'posted', 'overrun', 'reason'])
    .where('job', '=', job.id)
    .where('accountId', '=', hold.timeCap)
    .where('kind', '=', 'refund')
    .orderBy('id')
    .execute();
  return {
    heldSeconds: hold.timeSeconds,
    resolution: resolution ?? null,
    refunds: refunds.map(({ at, posted, overrun, reason }) => ({ at, reason, seconds: -(posted + overrun) })),
  };
}
