import { BursarError } from '../../domain/errors.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import { findMember, type MemberStatus, setMemberStatus } from '../../store/identity/members.ts';
import { closeProject, findProject, type NewProject, type ProjectRecord } from '../../store/identity/projects.ts';
import { listUserIds } from '../../store/identity/users.ts';
import { type IdempotentRequest, runOnce } from '../idempotency.ts';
import { requireAdmin, requireUser } from '../identity/access.ts';
import type { Actor } from '../identity/actor.ts';
import { joinProject, openProject } from '../identity/enrolment.ts';
import { type GrantAct, moveGrant } from './grants.ts';
import { type NewPeriod, openGrantPeriod } from './periods.ts';

/** What an administrator does, to be carried out once and written into the audit trail. */
export interface AdministrativeAct<T> {
  actor: Actor;
  /** As it stands in the audit trail, such as `grant.top_up`. */
  act: string;
  subject: string;
  details: Readonly<Record<string, unknown>>;
  carryOut(tx: Tx, now: number): Promise<T>;
}

/** Act and audit record are one transaction, together with the answer that a repetition of the request gets. */
export async function administer<T>(
  db: Db,
  request: IdempotentRequest | null,
  { actor, act, subject, details, carryOut }: AdministrativeAct<T>,
  now: number,
): Promise<T> {
  requireAdmin(actor);
  const work = async (tx: Tx) => {
    const answer = await carryOut(tx, now);
    await insertAudit(tx, { actor: actor.userId, act, subject, details, at: now });
    return answer;
  };
  return await runOnce(db, request, now, work);
}

type Details = AdministrativeAct<unknown>['details'];

/** Details stand in the audit trail as they were asked for. */
export function grantAct(actor: Actor, project: ProjectRecord, act: GrantAct, details: Details) {
  return {
    actor,
    act: `grant.${act.kind}`,
    subject: `${project.hpc}/${project.name}`,
    details: { kind: act.kind, ...details },
    carryOut: (tx: Tx, now: number) => moveGrant(tx, project, act, actor.userId, now),
  };
}

export function periodAct(actor: Actor, project: ProjectRecord, period: NewPeriod, details: Details) {
  return {
    actor,
    act: 'grant.period',
    subject: `${project.hpc}/${project.name}`,
    details,
    carryOut: (tx: Tx, now: number) => openGrantPeriod(tx, project, period, actor.userId, now),
  };
}

/** Adds, removes, bans or unbans. Removed and banned members keep reading, and cannot submit. */
export function memberAct(actor: Actor, project: ProjectRecord, userId: string, status: MemberStatus, reason: string) {
  return {
    actor,
    act: `member.${status}`,
    subject: `${project.hpc}/${project.name}/${userId}`,
    details: { reason },
    carryOut: async (tx: Tx, now: number) => {
      await requireUser(tx, userId);
      if (status === 'active') await joinProject(tx, project, userId, actor.userId, now);
      const member = await findMember(tx, userId, project.id);
      if (member === undefined) throw new BursarError('conflict', `User ${userId} is no member of ${project.name}.`);
      await setMemberStatus(tx, { ...member, status, reason, since: now });
      return { ...member, status, reason, since: now };
    },
  };
}

export function newProjectAct(actor: Actor, project: NewProject, details: Details) {
  return {
    actor,
    act: 'project.create',
    subject: `${project.hpc}/${project.name}`,
    details,
    carryOut: async (tx: Tx, now: number) => {
      if ((await findProject(tx, project.hpc, project.name)) !== undefined) {
        throw new BursarError('conflict', `${project.hpc} has a project ${project.name} already.`);
      }
      const created = { ...project, id: await openProject(tx, project), closedAt: null };
      if (project.autoJoin) {
        for (const userId of await listUserIds(tx)) await joinProject(tx, created, userId, actor.userId, now);
      }
      return created;
    },
  };
}

export function closeProjectAct(actor: Actor, project: ProjectRecord, reason: string) {
  return {
    actor,
    act: 'project.close',
    subject: `${project.hpc}/${project.name}`,
    details: { reason },
    carryOut: async (tx: Tx, now: number) => {
      await closeProject(tx, project.id, now);
      return { ...project, closedAt: project.closedAt ?? now };
    },
  };
}
