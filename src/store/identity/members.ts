import type { Selectable } from 'kysely';
import type { JoinedBy } from '../../domain/identity/group-membership.ts';
import type { Db, Tx } from '../database/handle.ts';
import type { Tables } from '../database/tables.ts';
import { type ProjectRecord, toProjectRecord } from './projects.ts';

export type MemberStatus = 'active' | 'removed' | 'banned';
export type MemberRole = 'member' | 'manager';

export interface MemberRecord {
  userId: string;
  projectId: number;
  status: MemberStatus;
  role: MemberRole;
  joinedBy: JoinedBy;
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

export interface Membership {
  hpc: string;
  project: string;
  role: MemberRole;
  status: MemberStatus;
}

/** Lists the projects of a user, ordered by id. */
export async function listMemberships(db: Db, userId: string): Promise<Membership[]> {
  return await db
    .selectFrom('memberships')
    .innerJoin('projects', 'projects.id', 'memberships.project_id')
    .select(['projects.hpc', 'projects.name as project', 'memberships.role', 'memberships.status'])
    .where('memberships.user_id', '=', userId)
    .orderBy('projects.id')
    .execute();
}

/** Lists the projects of which a user is a member because of the groups at an issuer. */
export async function listProjectsJoinedBy(db: Db, userId: string, issuer: string): Promise<ProjectRecord[]> {
  const rows = await db
    .selectFrom('memberships')
    .innerJoin('projects', 'projects.id', 'memberships.project_id')
    .selectAll('projects')
    .where('memberships.user_id', '=', userId)
    .where('memberships.joined_by', '=', issuer)
    .where('memberships.status', '=', 'active')
    .orderBy('projects.id')
    .execute();
  return rows.map(toProjectRecord);
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
export async function updateMember(tx: Tx, member: MemberRecord): Promise<void> {
  await tx
    .updateTable('memberships')
    .set({
      status: member.status,
      role: member.role,
      joined_by: member.joinedBy,
      reason: member.reason,
      since: member.since,
    })
    .where('user_id', '=', member.userId)
    .where('project_id', '=', member.projectId)
    .execute();
}

function toMemberRecord(row: Selectable<Tables['memberships']>): MemberRecord {
  return {
    userId: row.user_id,
    projectId: row.project_id,
    status: row.status,
    role: row.role,
    joinedBy: row.joined_by,
    reason: row.reason,
    since: row.since,
  };
}
