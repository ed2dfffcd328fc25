import { joinByGroup, leaveByGroup } from '../../domain/identity/group-membership.ts';
import type { SiteRole } from '../../domain/identity/policy.ts';
import type { Tx } from '../../store/database/handle.ts';
import { type AuditActor, insertAudit, type NewAuditRecord } from '../../store/identity/audit.ts';
import { listIdentities, updateIdentity } from '../../store/identity/identities.ts';
import { findMember, listProjectsJoinedBy, type MemberRecord, updateMember } from '../../store/identity/members.ts';
import { findProject, type ProjectRecord } from '../../store/identity/projects.ts';
import { findUser, updateUser } from '../../store/identity/users.ts';
import { automaticActor, joinProject } from './enrolment.ts';
import { highestRole, type Identity } from './oidc/claims.ts';

/** From where the token came, for the audit trail. */
export type Origin = Pick<AuditActor, 'address' | 'requestId'>;

type Change = Pick<NewAuditRecord, 'action' | 'subject' | 'details'>;

/**
 * Stores what an issuer says about a user: name, mail, role and memberships. Returns the role of the user. Changes of role and
 * memberships are in the audit trail.
 */
export async function applyClaims(
  tx: Tx,
  userId: string,
  identity: Identity & { groupsHash: string; isNew: boolean },
  origin: Origin,
  now: number,
): Promise<SiteRole> {
  const { role: groupRole, groupsHash, issuedAt: claimsAt } = identity;
  const isNewest = await updateIdentity(tx, identity, { groupRole, groupsHash, claimsAt });
  const user = await findUser(tx, userId);
  if (user === undefined) throw new Error('the user of the identity has vanished');
  if (!isNewest) return user.role;
  const { name, mail } = { name: identity.name ?? user.name, mail: identity.mail ?? user.mail };
  if (name !== user.name || mail !== user.mail) await updateUser(tx, userId, { name, mail });
  const role = await roleByGroups(tx, userId, user.role);
  const { issuer, subject } = identity;
  const changes = [
    ...(identity.isNew ? [{ action: 'user.create', subject: userId, details: { issuer, subject } }] : []),
    ...(await joinProjects(tx, userId, identity, now)),
    ...(identity.syncMemberships ? await leaveProjects(tx, userId, identity, now) : []),
  ];
  if (role !== user.role) {
    await updateUser(tx, userId, { role });
    changes.push({ action: 'user.role', subject: userId, details: { role, issuer } });
  }
  const actor = { ...origin, userId: automaticActor, tokenId: null, sessionId: null };
  for (const change of changes) await insertAudit(tx, { ...change, actor, at: now });
  return role;
}

/** The highest role that an issuer gives. Without an issuer that decides about roles, the role stays. */
async function roleByGroups(tx: Tx, userId: string, current: SiteRole): Promise<SiteRole> {
  const roles = (await listIdentities(tx, userId)).flatMap(({ groupRole }) => groupRole ?? []);
  return roles.length === 0 ? current : highestRole(roles);
}

/** Projects that do not exist are skipped: a new project has the groups applied again. */
async function joinProjects(tx: Tx, userId: string, identity: Identity, now: number): Promise<Change[]> {
  const { issuer, memberships, syncMemberships } = identity;
  const changes: Change[] = [];
  for (const { hpc, project: name, role } of memberships) {
    const project = await findProject(tx, hpc, name);
    if (project === undefined || project.closedAt !== null) continue;
    const isNew = await joinProject(tx, project, userId, automaticActor, now);
    const member = await requireMember(tx, userId, project);
    const joined = isNew
      ? { status: 'active' as const, role, joinedBy: issuer }
      : joinByGroup(member, role, { issuer, canDemote: syncMemberships });
    if (joined === undefined) continue;
    changes.push(await storeMember(tx, project, { ...member, ...joined, since: now }, `in a group at ${issuer}`));
  }
  return changes;
}

async function leaveProjects(tx: Tx, userId: string, identity: Identity, now: number): Promise<Change[]> {
  const { issuer, memberships } = identity;
  const changes: Change[] = [];
  for (const project of await listProjectsJoinedBy(tx, userId, issuer)) {
    if (memberships.some((each) => each.hpc === project.hpc && each.project === project.name)) continue;
    const member = await requireMember(tx, userId, project);
    const left = { ...member, ...leaveByGroup(member, project.autoJoin === 1), since: now };
    changes.push(await storeMember(tx, project, left, `no longer in a group at ${issuer}`));
  }
  return changes;
}

async function requireMember(tx: Tx, userId: string, { id, name }: ProjectRecord): Promise<MemberRecord> {
  const member = await findMember(tx, userId, id);
  if (member === undefined) throw new Error(`${userId} has vanished from ${name}`);
  return member;
}

async function storeMember(tx: Tx, project: ProjectRecord, member: MemberRecord, reason: string): Promise<Change> {
  await updateMember(tx, { ...member, reason });
  const { userId, role, status } = member;
  return {
    action: `member.${status}`,
    subject: `${project.hpc}/${project.name}/${userId}`,
    details: { role, reason },
  };
}
