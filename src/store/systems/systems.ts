import type { Db, Tx } from '../database/handle.ts';
import type { Row } from '../database/tables.ts';
import { isUnfinished } from '../jobs/job-queue.ts';

export type SystemRecord = Row<'systems'>;

export async function listSystems(db: Db): Promise<SystemRecord[]> {
  return await db.selectFrom('systems').selectAll().execute();
}

/** Inserts a system. An existing one is not changed. */
export async function ensureSystem(db: Db, hpc: string, now: number): Promise<void> {
  await db
    .insertInto('systems')
    .values({ hpc, status: 'up', since: now, detail: 'not checked yet' })
    .onConflict((conflict) => conflict.column('hpc').doNothing())
    .execute();
}

/** A paused system rejects submissions; its accepted jobs go on. */
export async function updateSystem(tx: Tx, hpc: string, change: Partial<Omit<SystemRecord, 'hpc'>>): Promise<void> {
  await tx.updateTable('systems').set(change).where('hpc', '=', hpc).execute();
}

/** Counts the queued and running jobs of each system. Jobs before their submission count as queued. */
export async function countUnfinishedJobs(db: Db): Promise<Map<string, { queued: number; running: number }>> {
  const rows = await db
    .selectFrom('jobs')
    .select(['hpc', 'state', (eb) => eb.fn.countAll().as('jobs')])
    .where(isUnfinished)
    .groupBy(['hpc', 'state'])
    .execute();
  const counts = new Map<string, { queued: number; running: number }>();
  for (const { hpc, state, jobs } of rows) {
    const count = counts.get(hpc) ?? { queued: 0, running: 0 };
    count[state === 'running' ? 'running' : 'queued'] += Number(jobs);
    counts.set(hpc, count);
  }
  return counts;
}
