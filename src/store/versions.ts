import { poolHolder } from './accounts.ts';
import type { Db } from './tables.ts';

/**
 * Numbers that rise, in the same transaction, with every change of what is read: as long as one has not risen, on
 * whichever instance, neither has the answer changed. Nothing that they count is ever removed.
 */

/** For every change of what a user's jobs show. Called by whoever writes jobs, which is `jobs.ts`. */
export async function raiseJobsVersion(db: Db, owner: string): Promise<void> {
  await db
    .updateTable('users')
    .set((eb) => ({ jobs_version: eb('jobs_version', '+', 1) }))
    .where('id', '=', owner)
    .execute();
}

/** The version of a user's jobs, or (without one) of everybody's. */
export async function jobsVersion(db: Db, owner: string | undefined): Promise<string> {
  const users = db.selectFrom('users');
  const query = owner === undefined ? users : users.where('id', '=', owner);
  const { version } = await query.select((eb) => eb.fn.sum('jobs_version').as('version')).executeTakeFirstOrThrow();
  return String(version ?? 0);
}

/**
 * The version of a user's quotas, or (without one) of everybody's. Each account has its own, so that a change of a pool
 * touches no row of its members; a new member has new accounts. And a quota changes without anybody writing when a
 * period begins or ends.
 */
export async function quotasVersion(db: Db, userId: string | undefined, now: number): Promise<string> {
  let accounts = db.selectFrom('accounts').select((eb) => eb.fn.sum('version').as('version'));
  let begun = db
    .selectFrom('periods')
    .select((eb) => eb.fn.countAll().as('begun'))
    .where('starts_at', '<=', now);
  let ended = db
    .selectFrom('periods')
    .select((eb) => eb.fn.countAll().as('ended'))
    .where('ends_at', '<=', now);
  if (userId !== undefined) {
    const projects = db.selectFrom('memberships').select('project_id').where('user_id', '=', userId);
    accounts = accounts.where('project_id', 'in', projects).where('holder', 'in', [poolHolder, userId]);
    begun = begun.where('project_id', 'in', projects);
    ended = ended.where('project_id', 'in', projects);
  }
  const row = await db
    .selectNoFrom([accounts.as('accounts'), begun.as('begun'), ended.as('ended')])
    .executeTakeFirstOrThrow();
  return [row.accounts ?? 0, row.begun, row.ended].join('-');
}
