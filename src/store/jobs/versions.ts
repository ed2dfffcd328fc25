import type { Db, Tx } from '../database/handle.ts';
import { prepared, type Value } from '../database/prepared.ts';

/**
 * Numbers that rise, in the same transaction, with every change of what is read: as long as one has not risen, on
 * whichever instance, neither has the answer changed. Nothing that they count is ever removed.
 */

/**
 * The version of a user's jobs, raised if what one of them shows is about to change. Called by whoever writes jobs, which
 * is `jobs.ts`, and before the job is written: the row of the user stays locked until the commit, so a version becomes
 * visible with the job that it stands in, and after all that are smaller. Who has seen one has seen what came before it.
 */
export async function takeJobsVersion(tx: Tx, owner: string, changes: boolean): Promise<number> {
  const [user] = await takeVersion(tx, { owner, by: changes ? 1 : 0 });
  if (user === undefined) throw new Error(`there is no user ${owner}`);
  return user.version;
}

const takeVersion = prepared((db, value: Value<{ owner: string; by: number }>) =>
  db
    .updateTable('users')
    .set((eb) => ({ jobs_version: eb('jobs_version', '+', value('by')) }))
    .where('id', '=', value('owner'))
    .returning('jobs_version as version'),
);

/**
 * The version of everybody's quotas. Each account has its own, so that a change of a pool touches no row of its members; a
 * new member has new accounts. And a quota changes without anybody writing when a period begins or ends.
 */
export async function quotasVersion(db: Db, now: number): Promise<string> {
  const { accounts, begun, ended } = await db
    .selectNoFrom((eb) => [
      eb
        .selectFrom('accounts')
        .select((of) => of.fn.sum('version').as('version'))
        .as('accounts'),
      eb
        .selectFrom('periods')
        .select((of) => of.fn.countAll().as('begun'))
        .where('starts_at', '<=', now)
        .as('begun'),
      eb
        .selectFrom('periods')
        .select((of) => of.fn.countAll().as('ended'))
        .where('ends_at', '<=', now)
        .as('ended'),
    ])
    .executeTakeFirstOrThrow();
  return [accounts ?? 0, begun, ended].join('-');
}
