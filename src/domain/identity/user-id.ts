/** User identifiers are numeric text. */
const pattern = /^\d{1,20}$/;

/**
 * Identifiers that Bursar assigns to users of OpenID providers that name none. They have 11 digits: more than any POSIX uid,
 * and fewer than an ORCID. Nothing else may name one of them, so that two people never get the same.
 */
export const assignedUserIds = { first: '90000000001', last: '99999999999' } as const;

export function isUserId(text: string): boolean {
  return pattern.test(text);
}

export function isAssignedUserId(userId: string): boolean {
  const { first, last } = assignedUserIds;
  return userId.length === first.length && userId >= first && userId <= last;
}

/** The identifier after the largest assigned one. */
export function nextAssignedUserId(largest: string | undefined): string {
  if (largest === undefined) return assignedUserIds.first;
  if (largest >= assignedUserIds.last) throw new Error('there are no more user identifiers to assign');
  return String(Number(largest) + 1);
}
