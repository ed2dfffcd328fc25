import type { Static } from 'typebox';
import type { UserDetailsSchema, UserSchema } from '../../contract/administration.ts';
import { toIsoTime, toIsoTimeOrNull } from '../../contract/fields.ts';
import { BursarError } from '../../domain/errors.ts';
import type { SiteRole } from '../../domain/identity/policy.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import {
  deleteIdentity,
  findIdentity,
  type IdentityKey,
  insertIdentity,
  listIdentities,
} from '../../store/identity/identities.ts';
import * as store from '../../store/identity/users.ts';
import { type AdminRequest, executeAdminAction } from '../admin-action.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { requireUser } from './access.ts';

export type UserDeps = Pick<ServiceDeps, 'db' | 'now' | 'providers' | 'accessTopic'>;

/** A change to a user, with the reason for the audit trail. */
export interface UserChange extends AdminRequest {
  userId: string;
  reason: string;
}

type User = Static<typeof UserSchema>;

export async function listUsers({ db }: Pick<UserDeps, 'db'>): Promise<User[]> {
  return (await store.listUsers(db)).map(publicUser);
}

export async function readUser(
  { db }: Pick<UserDeps, 'db'>,
  userId: string,
): Promise<Static<typeof UserDetailsSchema>> {
  const user = await requireUser(db, userId);
  const identities = (await listIdentities(db, userId)).map(({ issuer, subject, createdAt }) => ({
    issuer,
    subject,
    linked_at: toIsoTime(createdAt),
  }));
  return { ...publicUser(user), identities };
}

/** Takes effect with the next request, on every instance, and ends open streams. Jobs of the user continue. */
export async function disableUser(deps: UserDeps, change: UserChange): Promise<User> {
  return await changeUser(deps, 'user.disable', change, {}, (tx) =>
    store.updateUser(tx, change.userId, { disabledAt: deps.now() }),
  );
}

export async function enableUser(deps: UserDeps, change: UserChange): Promise<User> {
  return await changeUser(deps, 'user.enable', change, {}, (tx) =>
    store.updateUser(tx, change.userId, { disabledAt: null }),
  );
}

export async function setUserRole(deps: UserDeps, change: UserChange, role: SiteRole): Promise<User> {
  return await changeUser(deps, 'user.role', change, { role }, async (tx) => {
    await requireRoleDecidedHere(tx, deps.providers, change.userId);
    await store.updateUser(tx, change.userId, { role });
  });
}

/** From now on the identity is this user. Its groups are applied with its next request. */
export async function linkIdentity(deps: UserDeps, change: UserChange, identity: IdentityKey): Promise<User> {
  const { issuer, subject } = identity;
  return await changeUser(deps, 'user.link', change, { issuer, subject }, async (tx) => {
    const issuers = deps.providers.map((provider) => provider.issuer);
    if (!issuers.includes(issuer)) {
      const message = `${issuer} is no configured issuer. Use one of oidc: ${issuers.join(', ')}.`;
      throw new BursarError('invalid_argument', message);
    }
    const linked = await findIdentity(tx, identity);
    if (linked?.userId === change.userId) return;
    if (linked !== undefined) {
      const message = `This identity is linked to user ${linked.userId}. Unlink it first, with "bursar user unlink".`;
      throw new BursarError('conflict', message);
    }
    await insertIdentity(tx, identity, change.userId, deps.now());
  });
}

/** The user keeps role and memberships. The identity becomes a new user with its next request. */
export async function unlinkIdentity(deps: UserDeps, change: UserChange, identity: IdentityKey): Promise<User> {
  const { issuer, subject } = identity;
  return await changeUser(deps, 'user.unlink', change, { issuer, subject }, async (tx) => {
    if (await deleteIdentity(tx, identity, change.userId)) return;
    throw new BursarError('not_found', `User ${change.userId} is not linked to this identity.`);
  });
}

async function changeUser(
  deps: UserDeps,
  name: string,
  { userId, reason, ...request }: UserChange,
  details: Readonly<Record<string, unknown>>,
  apply: (tx: Tx) => Promise<void>,
): Promise<User> {
  await requireUser(deps.db, userId);
  // Otherwise the last administrator could lock everybody out.
  if (request.actor.userId === userId) {
    const message = 'You cannot disable yourself, or change your own role or identities. Ask another administrator.';
    throw new BursarError('conflict', message);
  }
  const action = { ...request, name, subject: userId, details: { ...details, reason } };
  const user = await executeAdminAction(deps, action, async (tx) => {
    await apply(tx);
    return publicUser(await requireUser(tx, userId));
  });
  deps.accessTopic.publish(userId);
  return user;
}

/** Throws if the groups at an OpenID provider decide about the role of the user. */
export async function requireRoleDecidedHere(db: Db, providers: UserDeps['providers'], userId: string): Promise<void> {
  const deciding = new Set(providers.filter(({ roles }) => roles !== undefined).map(({ issuer }) => issuer));
  if (deciding.size === 0) return;
  const identity = (await listIdentities(db, userId)).find(({ issuer }) => deciding.has(issuer));
  if (identity === undefined) return;
  const message = `The groups at ${identity.issuer} decide about the role of user ${userId}. Change them there.`;
  throw new BursarError('conflict', message);
}

function publicUser({ id, role, name, mail, createdAt, disabledAt }: store.UserRecord): User {
  return { user: id, role, name, mail, created_at: toIsoTime(createdAt), disabled_at: toIsoTimeOrNull(disabledAt) };
}
