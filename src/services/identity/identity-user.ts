import { hash } from 'node:crypto';
import { BursarError } from '../../domain/errors.ts';
import { isAssignedUserId } from '../../domain/identity/user-id.ts';
import type { Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { findIdentity, type IdentityRecord, insertIdentity } from '../../store/identity/identities.ts';
import { insertUser, nextUserId, userExists } from '../../store/identity/users.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { applyClaims, type Origin } from './apply-claims.ts';
import { joinAutoJoinProjects } from './enrolment.ts';
import type { Identity } from './oidc/claims.ts';
import { userDisabled } from './refused-access.ts';

export type IdentityUserDeps = Pick<ServiceDeps, 'db' | 'now' | 'accessTopic'>;

/**
 * Returns the user of an identity, after its claims were applied. The first request of an identity creates its user. A request
 * whose claims say nothing new costs one query and writes nothing.
 */
export async function findOrCreateUser(
  { db, now, accessTopic }: IdentityUserDeps,
  identity: Identity,
  origin: Origin,
): Promise<Pick<IdentityRecord, 'userId' | 'role'>> {
  const record = await findIdentity(db, identity);
  if (record !== undefined && record.disabledAt !== null) throw userDisabled(record.userId, null);
  const groupsHash = hashMemberships(identity);
  if (record !== undefined && isCurrent(record, identity, groupsHash))
    return { userId: record.userId, role: record.role };
  const user = await inTransaction(db, async (tx) => {
    // Before the identity: a user that another request creates between the two queries is found with its identity.
    const isTaken = identity.userId !== null && (await userExists(tx, identity.userId));
    const existing = (await findIdentity(tx, identity))?.userId;
    const userId = existing ?? (await createUser(tx, identity, isTaken, now()));
    const claims = { ...identity, groupsHash, isNew: existing === undefined };
    return { userId, role: await applyClaims(tx, userId, claims, origin, now()) };
  });
  if (record !== undefined) accessTopic.publish(user.userId);
  return user;
}

/**
 * Whether the claims say nothing new. An older token does not: otherwise two tokens of before and after a change would undo
 * each other. A token without a name says nothing about the name: ID tokens and access tokens often have different claims.
 */
function isCurrent(record: IdentityRecord, identity: Identity, groupsHash: string): boolean {
  const { name, mail, role, issuedAt } = identity;
  if (issuedAt < record.claimsAt) return true;
  return (
    (name ?? record.name) === record.name &&
    (mail ?? record.mail) === record.mail &&
    role === record.groupRole &&
    groupsHash === record.groupsHash
  );
}

const hashMemberships = ({ memberships, syncMemberships }: Identity) =>
  hash('sha256', JSON.stringify([memberships, syncMemberships]));

/** If two requests do so at once, one insert fails, and its transaction is retried and finds the user of the other one. */
async function createUser(tx: Tx, identity: Identity, isTaken: boolean, now: number): Promise<string> {
  if (identity.userId !== null) requireFreeUserId(identity.userId, isTaken, identity);
  const userId = identity.userId ?? (await nextUserId(tx));
  await insertUser(tx, userId, 'user', now);
  await insertIdentity(tx, identity, userId, now);
  await joinAutoJoinProjects(tx, userId, now);
  return userId;
}

function requireFreeUserId(userId: string, isTaken: boolean, { issuer, subject }: Identity): void {
  if (isAssignedUserId(userId)) {
    const message = `The token names the user ${userId}, but Bursar itself assigns identifiers of this range. Report it to the operators.`;
    throw new BursarError('token_invalid', message);
  }
  if (!isTaken) return;
  // The subject is shown as part of a command only if a shell takes it literally.
  const subjectArgument = /^[\w.@:/+-]+$/.test(subject) ? subject : '<subject>';
  const message =
    `User ${userId} exists already, and is not linked to the subject ${JSON.stringify(subject)} of ${issuer}. If both are the ` +
    `same person, an operator can link them: bursar user link --user ${userId} --issuer ${issuer} ` +
    `--subject ${subjectArgument} --reason <text>`;
  throw new BursarError('identity_conflict', message);
}
