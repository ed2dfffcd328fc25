import { poolHolder } from './accounts.ts';
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

const jobsVersionOfUser = prepared((db, value: Value<{ owner: string }>) =>
  db.selectFrom('users').select('jobs_version as version').where('id', '=', value('owner')),
);

/** The version of a user's jobs, or (without one) of everybody's. */
export async function jobsVersion(db: Db, owner: string | undefined): Promise<string> {
  const [row] =
    owner === undefined
      ? await db
          .selectFrom('users')
          .select((eb) => eb.fn.sum('jobs_version').as('version'))
          .execute()
      : await jobsVersionOfUser(db, { owner });
  return String(row?.version ?? 0);
}

const accountsVersionOfUser = prepared((db, value: Value<{ userId: string }>) =>
  db
    .selectFrom('accounts')
    .select((eb) => eb.fn.sum('version').as('version'))
    .where('project_id', 'in', projectsOf(db, value('userId')))
    .where('holder', 'in', [poolHolder, value('userId')]),
);

const periodsOfUser = prepared((db, value: Value<{ userId: string }>) =>
  db
    .selectFrom('periods')
    .select(['starts_at', 'ends_at'])
    .where('project_id', 'in', projectsOf(db, value('userId'))),
);

const projectsOf = (db: Db, userId: string) =>
  db.selectFrom('memberships').select('project_id').where('user_id', '=', userId);

const accountsVersionOfAll = prepared((db) =>
  db.selectFrom('accounts').select((eb) => eb.fn.sum('version').as('version')),
);

const allPeriods = prepared((db) => db.selectFrom('periods').select(['starts_at', 'ends_at']));

/**
 * The version of a user's quotas, or (without one) of everybody's. Each account has its own, so that a change of a pool
 * touches no row of its members; a new member has new accounts. And a quota changes without anybody writing when a
 * period begins or ends.
 */
export async function quotasVersion(db: Db, userId: string | undefined, now: number): Promise<string> {
  const [accounts] =
    userId === undefined ? await accountsVersionOfAll(db, {}) : await accountsVersionOfUser(db, { userId });
  const periods = userId === undefined ? await allPeriods(db, {}) : await periodsOfUser(db, { userId });
  const begun = periods.filter(({ starts_at }) => starts_at <= now).length;
  const ended = periods.filter(({ ends_at }) => ends_at !== null && ends_at <= now).length;
  return [accounts?.version ?? 0, begun, ended].join('-');
}
