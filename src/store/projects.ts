import type { Db } from './tables.ts';

export interface ProjectRecord {
  id: number;
  hpc: string;
  name: string;
}

export async function findProject(db: Db, hpc: string, name: string): Promise<ProjectRecord | undefined> {
  return await db
    .selectFrom('projects')
    .select(['id', 'hpc', 'name'])
    .where('hpc', '=', hpc)
    .where('name', '=', name)
    .executeTakeFirst();
}

/** Creates the project with an open-ended period and empty pools. The caller has looked that there is none yet. */
export async function insertProject(db: Db, hpc: string, name: string, now: number): Promise<ProjectRecord> {
  const { id } = await db
    .insertInto('projects')
    .values({ hpc, name, created_at: now, closed_at: null })
    .returning('id')
    .executeTakeFirstOrThrow();
  await db.insertInto('periods').values({ project_id: id, starts_at: now, ends_at: null }).execute();
  return { id, hpc, name };
}

/** The period that new holds are taken from. */
export async function currentPeriod(db: Db, projectId: number, now: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('periods')
    .select('id')
    .where('project_id', '=', projectId)
    .where('starts_at', '<=', now)
    .where((eb) => eb.or([eb('ends_at', 'is', null), eb('ends_at', '>', now)]))
    .orderBy('starts_at')
    .executeTakeFirst();
  return row?.id;
}

export type Membership = 'active' | 'removed' | 'banned';

export async function membershipOf(db: Db, userId: string, projectId: number): Promise<Membership | undefined> {
  const row = await db
    .selectFrom('memberships')
    .select('status')
    .where('user_id', '=', userId)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  return row?.status;
}

/** True when the user is new to the project. Whoever was a member before, in whatever way, stays what they are. */
export async function insertMembership(db: Db, userId: string, projectId: number, now: number): Promise<boolean> {
  const row = await db
    .insertInto('memberships')
    .values({ user_id: userId, project_id: projectId, status: 'active', reason: '', since: now })
    .onConflict((conflict) => conflict.columns(['user_id', 'project_id']).doNothing())
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}
