import type { Static } from 'typebox';
import type { OidcConfig } from '../../config/oidc-schema.ts';
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
import { listUsers, setDisabled, setRole, type UserRecord } from '../../store/identity/users.ts';
import { executeAdminAction } from '../accounting/admin-actions.ts';
import type { IdempotentRequest } from '../idempotency.ts';
import { requireUser } from './access.ts';
import type { Actor } from './actor.ts';
import { requireRoleDecidedHere } from './role-authority.ts';

export type UserService = ReturnType<typeof createUserService>;

/** A change to a user, with the reason for the audit trail. */
export interface UserChange {
  actor: Actor;
  userId: string;
  reason: string;
  request: IdempotentRequest | null;
}

export interface UserServiceDeps {
  db: Db;
  providers: readonly OidcConfig[];
  now(): number;
  /** Called after a commit by which the rights of a user may have become fewer. */
  publishAccess(userId: string): void;
}

/** The users, their roles, and their identities at OpenID providers. */
export function createUserService({ db, providers, now, publishAccess }: UserServiceDeps) {
  async function change(
    name: string,
    { actor, userId, reason, request }: UserChange,
    details: Readonly<Record<string, unknown>>,
    apply: (tx: Tx) => Promise<void>,
  ): Promise<Static<typeof UserSchema>> {
    await requireUser(db, userId);
    // Otherwise the last administrator could lock everybody out.
    if (actor.userId === userId)
      throw new BursarError(
        'conflict',
        'You cannot disable yourself, or change your own role or identities. Ask another administrator.',
      );
    const execute = async (tx: Tx) => {
      await apply(tx);
      return publicUser(await requireUser(tx, userId));
    };
    const action = { actor, name, subject: userId, details: { ...details, reason }, execute };
    const user = await executeAdminAction(db, request, action, now());
    publishAccess(userId);
    return user;
  }

  return {
    list: async () => (await listUsers(db)).map(publicUser),

    async read(userId: string): Promise<Static<typeof UserDetailsSchema>> {
      const user = await requireUser(db, userId);
      const identities = await listIdentities(db, userId);
      return { ...publicUser(user), identities: identities.map(publicIdentity) };
    },

    /** Takes effect with the next request, on every instance, and ends open streams. Jobs of the user continue. */
    disable: (userChange: UserChange) =>
      change('user.disable', userChange, {}, (tx) => setDisabled(tx, userChange.userId, now())),

    enable: (userChange: UserChange) =>
      change('user.enable', userChange, {}, (tx) => setDisabled(tx, userChange.userId, null)),

    setRole: (userChange: UserChange, role: SiteRole) =>
      change('user.role', userChange, { role }, async (tx) => {
        await requireRoleDecidedHere(tx, providers, userChange.userId);
        await setRole(tx, userChange.userId, role);
      }),

    /** From now on the identity is this user. Its groups are applied with its next request. */
    link: (userChange: UserChange, { issuer, subject }: IdentityKey) =>
      change('user.link', userChange, { issuer, subject }, async (tx) => {
        if (!providers.some((provider) => provider.issuer === issuer)) {
          const message = `${issuer} is no configured issuer. Use one of oidc: ${providers.map((each) => each.issuer).join(', ')}.`;
          throw new BursarError('invalid_argument', message);
        }
        const linked = await findIdentity(tx, { issuer, subject });
        if (linked?.userId === userChange.userId) return;
        if (linked !== undefined) {
          const message = `This identity is linked to user ${linked.userId}. Unlink it first, with "bursar user unlink".`;
          throw new BursarError('conflict', message);
        }
        await insertIdentity(tx, { issuer, subject }, userChange.userId, now());
      }),

    /** The user keeps role and memberships. The identity becomes a new user with its next request. */
    unlink: (userChange: UserChange, { issuer, subject }: IdentityKey) =>
      change('user.unlink', userChange, { issuer, subject }, async (tx) => {
        if (await deleteIdentity(tx, { issuer, subject }, userChange.userId)) return;
        throw new BursarError('not_found', `User ${userChange.userId} is not linked to this identity.`);
      }),
  };
}

function publicUser({ id, role, name, mail, createdAt, disabledAt }: UserRecord): Static<typeof UserSchema> {
  return { user: id, role, name, mail, created_at: toIsoTime(createdAt), disabled_at: toIsoTimeOrNull(disabledAt) };
}

function publicIdentity({ issuer, subject, createdAt }: Awaited<ReturnType<typeof listIdentities>>[number]) {
  return { issuer, subject, linked_at: toIsoTime(createdAt) };
}
