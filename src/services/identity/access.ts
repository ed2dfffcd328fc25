import { BursarError } from '../../domain/errors.ts';
import { type TokenScope, usableScopes } from '../../domain/identity/policy.ts';
import type { Db } from '../../store/database/handle.ts';
import { findMember, listMemberships, type Membership } from '../../store/identity/members.ts';
import { findProject } from '../../store/identity/projects.ts';
import { findUser, type UserRecord } from '../../store/identity/users.ts';
import type { ProjectScope, ReadDeps } from '../scope.ts';
import { userDisabled } from './refused-access.ts';

export type AccessDeps = Pick<ReadDeps, 'db'>;

export async function isManager({ db }: AccessDeps, userId: string, { hpc, project: name }: ProjectScope) {
  const project = await findProject(db, hpc, name);
  const member = project && (await findMember(db, userId, project.id));
  return member?.status === 'active' && member.role === 'manager';
}

/** Returns the identifier of a user who exists. */
export async function requireUserId({ db }: AccessDeps, userId: string): Promise<string> {
  return (await requireUser(db, userId)).id;
}

export async function requireUser(db: Db, userId: string): Promise<UserRecord> {
  const user = await findUser(db, userId);
  if (user !== undefined) return user;
  const message = 'There is no user with this identifier. GET /admin/users/ and "bursar user list" list all users.';
  throw new BursarError('user_unknown', message);
}

export async function requireEnabledUser(db: Db, userId: string): Promise<void> {
  if ((await requireUser(db, userId)).disabledAt !== null) throw userDisabled(userId);
}

/**
 * The scopes of these with which a user may do something. A session, for example, has all scopes, because the role of its user
 * decides. A token that is made with it gets, and its user sees, only those of use.
 */
export async function readUsableScopes(
  db: Db,
  userId: string,
  scopes: ReadonlySet<TokenScope>,
): Promise<ReadonlySet<TokenScope>> {
  const [user, memberships] = await Promise.all([findUser(db, userId), listMemberships(db, userId)]);
  return usableScopes(scopes, { role: user?.role ?? 'user', isManager: managesProject(memberships) });
}

export function managesProject(memberships: readonly Membership[]): boolean {
  return memberships.some((member) => member.status === 'active' && member.role === 'manager');
}
