import { BursarError } from '../../domain/errors.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import { findMember, type MemberRole, type MemberStatus, updateMember } from '../../store/identity/members.ts';
import { closeProject, findProject, type NewProject, type ProjectRecord } from '../../store/identity/projects.ts';
import { listUserIds } from '../../store/identity/users.ts';
import { type IdempotentRequest, runOnce } from '../idempotency.ts';
import { requireUser } from '../identity/access.ts';
import type { Actor } from '../identity/actor.ts';
import { createProject, joinProject } from '../identity/enrolment.ts';
import { changeGrant, type GrantChange } from './grants.ts';
import { type NewPeriod, openGrantPeriod } from './periods.ts';
import { insertGrantEvents, insertPeriodEvents } from './quota-events.ts';

/** A change by an administrator or manager, which is executed once and recorded in the audit trail. */
export interface AdminAction<T> {
  actor: Actor;
  /** The name in the audit trail, such as `grant.top_up`. */
  name: string;
  subject: string;
  details: Readonly<Record<string, unknown>>;
  execute(tx: Tx, now: number): Promise<T>;
}

/** Gets the users who have a new event. They are told after the commit. */
type Notify = (userIds: readonly string[]) => void;

/** Action, audit record and stored response are one transaction: all of them are committed, or none. */
export async function executeAdminAction<T>(
  db: Db,
  request: IdempotentRequest | null,
  { actor, name, subject, details, execute }: AdminAction<T>,
  now: number,
): Promise<T> {
  return await runOnce(db, request, now, async (tx) => {
    const result = await execute(tx, now);
    await insertAudit(tx, { actor, action: name, subject, details, at: now });
    return result;
  });
}

type Details = AdminAction<unknown>['details'];

/** The audit trail gets the details in the units of the request. */
export function grantAction(
  actor: Actor,
  project: ProjectRecord,
  change: GrantChange,
  details: Details,
  notify: Notify,
) {
  return {
    actor,
    name: `grant.${change.kind}`,
    subject: `${project.hpc}/${project.name}`,
    details: { kind: change.kind, ...details },
    execute: async (tx: Tx, now: number) => {
      notify(await insertGrantEvents(tx, project, change, now));
      return await changeGrant(tx, project, change, actor.userId, now);
    },
  };
}

export function openPeriodAction(
  actor: Actor,
  project: ProjectRecord,
  period: NewPeriod,
  details: Details,
  notify: Notify,
) {
  return {
    actor,
    name: 'grant.period',
    subject: `${project.hpc}/${project.name}`,
    details,
    execute: async (tx: Tx, now: number) => {
      notify(await insertPeriodEvents(tx, project, period, now));
      return await openGrantPeriod(tx, project, period, actor.userId, now);
    },
  };
}

/** Adds, removes, bans or unbans a member. Removed and banned members can read, but not submit. */
export function setMemberAction(
  actor: Actor,
  project: ProjectRecord,
  userId: string,
  { status, role, reason }: { status: MemberStatus; role?: MemberRole; reason: string },
) {
  return {
    actor,
    name: `member.${status}`,
    subject: `${project.hpc}/${project.name}/${userId}`,
    details: { ...(role === undefined ? {} : { role }), reason },
    execute: async (tx: Tx, now: number) => {
      await requireUser(tx, userId);
      if (status === 'active') await joinProject(tx, project, userId, actor.userId, now);
      const member = await findMember(tx, userId, project.id);
      if (member === undefined)
        throw new BursarError('conflict', `User ${userId} is not a member of ${project.name}. Add them first.`);
      const joinedBy = 'administrator';
      const changed = { ...member, status, role: role ?? member.role, joinedBy, reason, since: now };
      await updateMember(tx, changed);
      return changed;
    },
  };
}

export function createProjectAction(actor: Actor, project: NewProject, details: Details) {
  return {
    actor,
    name: 'project.create',
    subject: `${project.hpc}/${project.name}`,
    details,
    execute: async (tx: Tx, now: number) => {
      if ((await findProject(tx, project.hpc, project.name)) !== undefined) {
        throw new BursarError('conflict', `${project.hpc} already has a project ${project.name}. Choose another name.`);
      }
      const created = { ...project, id: await createProject(tx, project), closedAt: null };
      if (project.autoJoin) {
        for (const userId of await listUserIds(tx)) await joinProject(tx, created, userId, actor.userId, now);
      }
      return created;
    },
  };
}

export function closeProjectAction(actor: Actor, project: ProjectRecord, reason: string) {
  return {
    actor,
    name: 'project.close',
    subject: `${project.hpc}/${project.name}`,
    details: { reason },
    execute: async (tx: Tx, now: number) => {
      await closeProject(tx, project.id, now);
      return { ...project, closedAt: project.closedAt ?? now };
    },
  };
}
