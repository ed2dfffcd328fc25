/** User identifiers are numeric text. */
const pattern = /^\d{1,20}$/;

/**
 * Identifiers that Bursar assigns to users of OpenID providers that name none. They have 11 digits: more than any POSIX uid,
 * and fewer than an ORCID. Nothing else may name one of them, so that two people never get the same.
 */
const firstAssigned = '90000000001';
const lastAssigned = '99999999999';

export const assignedUserIds = { first: firstAssigned, last: lastAssigned } as const;

export function isUserId(text: string): boolean {
  return pattern.test(text);
}

export function isAssignedUserId(userId: string): boolean {
  return userId.length === firstAssigned.length && userId >= firstAssigned && userId <= lastAssigned;
}

/** The identifier after the largest assigned one. */
export function nextAssignedUserId(largest: string | undefined): string {
  if (largest === undefined) return firstAssigned;
  if (largest >= lastAssigned) throw new Error('there are no more user identifiers to assign');
  return String(Number(largest) + 1);
}
