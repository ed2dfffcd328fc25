import { sql } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import type { Row } from '../database/tables.ts';
import type { ProjectRecord } from './projects.ts';

export type MemberRecord = Row<'memberships'>;
export type MemberStatus = MemberRecord['status'];
export type MemberRole = MemberRecord['role'];
export type Membership = Awaited<ReturnType<typeof listMemberships>>[number];

export async function findMember(db: Db, userId: string, projectId: number): Promise<MemberRecord | undefined> {
  return await db
    .selectFrom('memberships')
    .selectAll()
    .where('userId', '=', userId)
    .where('projectId', '=', projectId)
    .executeTakeFirst();
}

export async function listMembers(db: Db, projectId: number): Promise<MemberRecord[]> {
  return await db.selectFrom('memberships').selectAll().where('projectId', '=', projectId).orderBy('id').execute();
}

/** Lists the projects of a user, ordered by id. */
export async function listMemberships(db: Db, userId: string) {
  return await db
    .selectFrom('memberships')
    .innerJoin('projects', 'projects.id', 'memberships.projectId')
    .select(['projects.hpc', 'projects.name as project', 'memberships.role', 'memberships.status'])
    .where('memberships.userId', '=', userId)
    .orderBy('projects.id')
    .execute();
}

/** Lists the projects of which a user is a member because of the groups at an issuer. */
export async function listProjectsJoinedBy(db: Db, userId: string, issuer: string): Promise<ProjectRecord[]> {
  return await db
    .selectFrom('memberships')
    .innerJoin('projects', 'projects.id', 'memberships.projectId')
    .selectAll('projects')
    .where('memberships.userId', '=', userId)
    .where('memberships.joinedBy', '=', issuer)
    .where('memberships.status', '=', 'active')
    .orderBy('projects.id')
    .execute();
}

/** Lists the memberships that are missing: every user joins every open project with `auto_join`. */
export async function listPendingAutoJoins(db: Db): Promise<{ userId: string; projectId: number }[]> {
  const { rows } = await sql<{ userId: string; projectId: number }>`
    select users.id as user_id, projects.id as project_id from users
    join projects on projects.auto_join = 1 and projects.closed_at is null
    where not exists (select id from memberships where user_id = users.id and project_id = projects.id)
    order by users.id, projects.id`.execute(db);
  return rows;
}

/** Returns true if the user is new to the project. Existing members, even removed and banned ones, keep their status. */
export async function insertMember(tx: Tx, userId: string, projectId: number, now: number): Promise<boolean> {
  const row = await tx
    .insertInto('memberships')
    .values({ userId, projectId, status: 'active', reason: '', since: now })
    .onConflict((conflict) => conflict.columns(['userId', 'projectId']).doNothing())
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/** Removed and banned members keep their accounts and can still read, but cannot submit. */
export async function updateMember(tx: Tx, { id, ...member }: MemberRecord): Promise<void> {
  await tx.updateTable('memberships').set(member).where('id', '=', id).execute();
}
