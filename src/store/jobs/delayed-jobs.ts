import type { DelayedJobs } from '../../domain/systems/health.ts';
import type { Db, Tx } from '../database/handle.ts';
import { dispatchableStates } from './job-queue.ts';

/**
 * Records why a job cannot be submitted to its system. `updateStatus` clears that when the job is submitted or ends.
 * Returns true if nothing was recorded before.
 */
export async function setDelay(tx: Tx, id: number, { at, reason }: { at: number; reason: string }): Promise<boolean> {
  const row = await tx
    .updateTable('jobs')
    .set((eb) => ({ delayedAt: eb.fn.coalesce('delayedAt', eb.val(at)), delayReason: reason }))
    .where('id', '=', id)
    .where('state', 'in', dispatchableStates)
    .returning('delayedAt')
    .executeTakeFirst();
  return row?.delayedAt === at;
}

/** Counts the delayed jobs of each system that has any. Uses the index `jobs_delayed`: such jobs are few. */
export async function countDelayedJobs(db: Db): Promise<Map<string, DelayedJobs>> {
  const rows = await db
    .selectFrom('jobs')
    .select((eb) => [
      'hpc',
      eb.fn.countAll().as('count'),
      eb.fn.min('delayedAt').as('since'),
      eb.fn.max('delayReason').as('reason'),
    ])
    .where('delayedAt', 'is not', null)
    .groupBy('hpc')
    .execute();
  return new Map(
    rows.map(({ hpc, count, since, reason }) => [
      hpc,
      { count: Number(count), since: Number(since), reason: reason ?? '' },
    ]),
  );
}
