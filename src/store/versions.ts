import { prepared, type Value } from './prepared.ts';
import type { Db } from './tables.ts';

/**
 * Numbers that rise, in the same transaction, with every change of what is read: as long as one has not risen, on
 * whichever instance, neither has the answer changed. Nothing that they count is ever removed.
 */

/** For every change of what a user's jobs show. Called by whoever writes jobs, which is `jobs.ts`. */
export async function raiseJobsVersion(db: Db, owner: string): Promise<void> {
  await raiseVersion(db, { owner });
}

const raiseVersion = prepared((db, value: Value<{ owner: string }>) =>
  db
    .updateTable('users')
    .set((eb) => ({ jobs_version: eb('jobs_version', '+', 1) }))
    .where('id', '=', value('owner')),
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
