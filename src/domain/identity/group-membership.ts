/** The maker of a membership: `auto_join`, `administrator`, or the issuer whose groups named the project. */
export type JoinedBy = string;

export interface MembershipState {
  status: 'active' | 'removed' | 'banned';
  role: 'member' | 'manager';
  joinedBy: JoinedBy;
}

/**
 * Returns the membership after a group at an issuer named the project; undefined if nothing changes. Decisions of administrators
 * stay, and so does a ban.
 */
export function joinByGroup(
  member: MembershipState,
  role: MembershipState['role'],
  { issuer, canDemote }: { issuer: string; canDemote: boolean },
): MembershipState | undefined {
  const { status, joinedBy } = member;
  if (status === 'banned' || joinedBy === 'administrator') return undefined;
  const joined: MembershipState = { status: 'active', role, joinedBy: issuer };
  if (status === 'removed') return joined;
  if (member.role === role) return undefined;
  if (role === 'manager') return joined;
  return joinedBy === issuer && canDemote ? joined : undefined;
}

/** Returns the membership that the groups of the issuer made, after they no longer name the project. */
export function leaveByGroup(member: MembershipState, isAutoJoin: boolean): MembershipState {
  if (isAutoJoin) return { status: 'active', role: 'member', joinedBy: 'auto_join' };
  return { ...member, status: 'removed', role: 'member' };
}
