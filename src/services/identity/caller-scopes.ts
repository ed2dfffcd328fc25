import { type TokenScope, usableScopes } from '../../domain/identity/policy.ts';
import type { Db } from '../../store/database/handle.ts';
import { listMemberships, type Membership } from '../../store/identity/members.ts';
import { findUser } from '../../store/identity/users.ts';

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
