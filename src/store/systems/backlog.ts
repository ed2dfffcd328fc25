import { sql } from 'kysely';
import type { JobState } from '../../domain/jobs/job.ts';
import type { DelayedJobs } from '../../domain/systems/health.ts';
import type { Db } from '../database/handle.ts';
import type { Resource } from '../database/tables.ts';
import { isUnfinished } from '../jobs/job-queue.ts';
import { poolHolder } from '../ledger/accounts.ts';

/** The unfinished jobs of a system that have the same state. */
export interface JobGroup {
  hpc: string;
  state: JobState;
  jobs: number;
  cancelRequested: number;
  /** Jobs whose submission began before the given time. */
  stuckSubmissions: number;
  oldestAcceptedAt: number;
}

/** Counts the unfinished jobs by system and state, in one pass over their index. */
export async function countJobsByState(db: Db, stuckBefore: number): Promise<JobGroup[]> {
  const { rows } = await sql<JobGroup>`
    select hpc, state, count(*) as jobs, count(cancel_requested_at) as "cancelRequested",
      count(case when state = 'submitting' and claimed_at < ${stuckBefore} then 1 end) as "stuckSubmissions",
      min(accepted_at) as "oldestAcceptedAt"
    from jobs where ${isUnfinished} group by hpc, state`.execute(db);
  return rows;
}

/** Sums what is held for unfinished jobs, by system. It searches the pools of the projects: each hold is in one of them. */
export async function sumHolds(db: Db): Promise<{ hpc: string; timeSeconds: number; spaceBytes: number }[]> {
  const held = (resource: Resource) => sql`(select sum(held) from accounts
    where project_id = projects.id and holder = ${poolHolder} and resource = ${resource})`;
  const { rows } = await sql<{ hpc: string; timeSeconds: number; spaceBytes: number }>`
    select hpc, coalesce(sum(held_time), 0) as "timeSeconds", coalesce(sum(held_space), 0) as "spaceBytes"
    from (select hpc, ${held('time')} as held_time, ${held('space')} as held_space from projects) as held
    group by hpc`.execute(db);
  return rows;
}

/** The webhook deliveries that are still to be sent. */
export async function countPendingDeliveries(db: Db): Promise<{ count: number; oldestAt: number | null }> {
  const { rows } = await sql<{ count: number; oldestAt: number | null }>`
    select count(*) as count, min(created_at) as "oldestAt" from deliveries where state = 'pending'`.execute(db);
  return rows[0] ?? { count: 0, oldestAt: null };
}

/** The names of all leases, with the holders of those that have not expired. */
export async function listLeaseHolders(db: Db): Promise<{ name: string; holder: string | null }[]> {
  const { rows } = await sql<{ name: string; holder: string | null }>`
    select name, case when expires_at > ${sql.raw(db.backend.dialect.currentTimeMs)} then holder end as holder
    from leases`.execute(db);
  return rows;
}

/** Counts the delayed jobs of each system that has any. Uses the index `jobs_delayed`: such jobs are few. */
export async function countDelayedJobs(db: Db): Promise<Map<string, DelayedJobs>> {
  const rows = await db
    .selectFrom('jobs')
    .select(['hpc', sql<number>`count(*)`.as('count'), sql<number>`min(delayed_at)`.as('since')])
    .select(sql<string>`coalesce(max(delay_reason), '')`.as('reason'))
    .where('delayedAt', 'is not', null)
    .groupBy('hpc')
    .execute();
  return new Map(rows.map(({ hpc, ...delayed }) => [hpc, delayed]));
}
