import type { Db, Tx } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';

/** A person or program, as an OpenID provider names them. */
export interface IdentityKey {
  issuer: string;
  subject: string;
}

/** An identity with its user. */
export type IdentityRecord = Awaited<ReturnType<typeof selectIdentity>>[number];

const selectIdentity = prepareQuery((db, param: Param<IdentityKey>) =>
  db
    .selectFrom('identities')
    .innerJoin('users', 'users.id', 'identities.userId')
    .select([
      'users.id as userId',
      'users.role',
      'users.name',
      'users.mail',
      'users.disabledAt',
      'identities.role as groupRole',
      'identities.groupsHash',
      'identities.claimsAt',
    ])
    .where('issuer', '=', param('issuer'))
    .where('subject', '=', param('subject')),
);

export async function findIdentity(db: Db, { issuer, subject }: IdentityKey): Promise<IdentityRecord | undefined> {
  const [row] = await selectIdentity(db, { issuer, subject });
  return row;
}

/** Throws if the identity has a user. */
export async function insertIdentity(tx: Tx, { issuer, subject }: IdentityKey, userId: string, now: number) {
  await tx.insertInto('identities').values({ issuer, subject, userId, createdAt: now }).execute();
}

/**
 * Stores what the groups at the issuer decide. Until the transaction ends, no other one can do so. Returns false if a newer
 * token has already decided.
 */
export async function updateIdentity(
  tx: Tx,
  { issuer, subject }: IdentityKey,
  { groupRole, groupsHash, claimsAt }: Pick<IdentityRecord, 'groupRole' | 'groupsHash' | 'claimsAt'>,
): Promise<boolean> {
  const row = await tx
    .updateTable('identities')
    .set({ role: groupRole, groupsHash, claimsAt })
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .where('claimsAt', '<=', claimsAt)
    .returning('userId')
    .executeTakeFirst();
  return row !== undefined;
}

/** Returns false if there is no such identity of the user. */
export async function deleteIdentity(tx: Tx, { issuer, subject }: IdentityKey, userId: string): Promise<boolean> {
  const query = tx.deleteFrom('identities').where('issuer', '=', issuer).where('subject', '=', subject);
  return (await query.where('userId', '=', userId).returning('userId').executeTakeFirst()) !== undefined;
}

export async function listIdentities(db: Db, userId: string) {
  return await db
    .selectFrom('identities')
    .select(['issuer', 'subject', 'role as groupRole', 'createdAt'])
    .where('userId', '=', userId)
    .orderBy('issuer')
    .orderBy('subject')
    .execute();
}

/** Has the memberships by groups applied again, with the next request of each user, because there is a new project. */
export async function resetGroupMemberships(tx: Tx): Promise<void> {
  await tx.updateTable('identities').set({ groupsHash: '' }).where('groupsHash', '<>', '').execute();
}
