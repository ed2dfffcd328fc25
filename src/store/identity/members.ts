import type { Selectable } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import type { Tables } from '../database/tables.ts';

export type MemberStatus = 'active' | 'removed' | 'banned';

export interface MemberRecord {
  userId: string;
  projectId: number;
  status: MemberStatus;
  reason: string;
  since: number;
}

export async function findMember(db: Db, userId: string, projectId: number): Promise<MemberRecord | undefined> {
  const row = await db
    .selectFrom('memberships')
    .selectAll()
    .where('user_id', '=', userId)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  return row && toMemberRecord(row);
}

export async function listMembers(db: Db, projectId: number): Promise<MemberRecord[]> {
  const rows = await db
    .selectFrom('memberships')
    .selectAll()
    .where('project_id', '=', projectId)
    .orderBy('id')
    .execute();
  return rows.map(toMemberRecord);
}

/** Lists the memberships that are missing: every user joins every open project with `auto_join`. */
export async function listPendingAutoJoins(db: Db): Promise<{ userId: string; projectId: number }[]> {
  return await db
    .selectFrom('users')
    .innerJoin('projects', (join) => join.on('projects.auto_join', '=', 1).on('projects.closed_at', 'is', null))
    .leftJoin('memberships', (join) =>
      join.onRef('memberships.user_id', '=', 'users.id').onRef('memberships.project_id', '=', 'projects.id'),
    )
    .where('memberships.id', 'is', null)
    .select(['users.id as userId', 'projects.id as projectId'])
    .orderBy('users.id')
    .orderBy('projects.id')
    .execute();
}

/** Returns true if the user is new to the project. Existing members, also removed and banned ones, keep their status. */
export async function insertMember(tx: Tx, userId: string, projectId: number, now: number): Promise<boolean> {
  const row = await tx
    .insertInto('memberships')
    .values({ user_id: userId, project_id: projectId, status: 'active', reason: '', since: now })
    .onConflict((conflict) => conflict.columns(['user_id', 'project_id']).doNothing())
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/** Removed and banned members keep their accounts and can still read, but cannot submit. */
export async function setMemberStatus(tx: Tx, member: MemberRecord): Promise<void> {
  await tx
    .updateTable('memberships')
    .set({ status: member.status, reason: member.reason, since: member.since })
    .where('user_id', '=', member.userId)
    .where('project_id', '=', member.projectId)
    .execute();
}

function toMemberRecord(row: Selectable<Tables['memberships']>): MemberRecord {
  return {
    userId: row.user_id,
    projectId: row.project_id,
    status: row.status,
    reason: row.reason,
    since: row.since,
  };
}
