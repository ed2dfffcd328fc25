import { BursarError } from '../../domain/errors.ts';
import { allScopes, type SiteRole, type TokenScope, userScopes } from '../../domain/identity/policy.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import { noLimit, type TokenLimit } from '../../store/identity/tokens.ts';
import { findUser, listUserIds, updateUser } from '../../store/identity/users.ts';
import { requireScope } from '../scope.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { type Actor, commandLineActor } from './actor.ts';
import { automaticActor, enrolUser } from './enrolment.ts';
import { createSignInLink } from './sign-in-links.ts';
import { issueToken } from './tokens.ts';
import { requireRoleDecidedHere } from './users.ts';

type ProvisionDeps = Pick<ServiceDeps, 'db' | 'systems' | 'providers'>;

/** A token that an operator creates for a user. */
export interface ProvisionRequest {
  actor: Actor;
  reason?: string | undefined;
  userId: string;
  /** The role that the user gets. Default: the role of an existing user stays. */
  role?: SiteRole | undefined;
  /** Default: those for resources of one's own, or with a role all of them. */
  scopes?: ReadonlySet<TokenScope> | undefined;
  limit: TokenLimit;
  name: string;
  expiresAt: number | null;
}

/** Creates the user if there is none, and a token, which is returned. Both are in the audit trail. */
export async function provisionToken(
  deps: ProvisionDeps,
  { actor, reason, userId, role, limit, name, expiresAt, ...request }: ProvisionRequest,
  now: number,
): Promise<string> {
  const { db, providers } = deps;
  const { hpc, project } = limit;
  if (hpc === null && project !== null) throw new BursarError('invalid_argument', 'Give the system of the project.');
  if (hpc !== null) await requireScope(deps, { hpc, ...(project === null ? {} : { project }) });
  const isNew = await enrolUser(db, userId, 'user', now);
  const scopes = request.scopes ?? (role === undefined || role === 'user' ? userScopes : allScopes);
  const why = reason === undefined ? {} : { reason };
  return await inTransaction(db, async (tx) => {
    const currentRole = (await findUser(tx, userId))?.role;
    const newRole = role === currentRole ? undefined : role;
    if (newRole !== undefined && currentRole !== 'user') {
      const message = `User ${userId} has the role ${currentRole}. Change it with "bursar user role" first.`;
      throw new BursarError('conflict', message);
    }
    if (newRole !== undefined) {
      await requireRoleDecidedHere(tx, providers, userId);
      await updateUser(tx, userId, { role: newRole });
    }
    const record = (action: string, details: object) =>
      insertAudit(tx, { actor, action, subject: userId, details: { ...details, ...why }, at: now });
    if (isNew) await record('user.create', {});
    if (newRole !== undefined) await record('user.role', { role: newRole });
    const newToken = { userId, name, scopes, limit, expiresAt };
    return (await issueToken(tx, newToken, { actor, details: why }, now)).token;
  });
}

/** A user for trying Bursar out. */
export interface DemonstrationUser {
  userId: string;
  token: string;
  /** The path of a link to sign in with. */
  signInPath: string;
}

/**
 * `demonstration`: an administrator and an ordinary user were created. `none`: there are no users, and the operator creates
 * the first one. `known`: this is not the first start.
 */
export type FirstUsers =
  | { kind: 'demonstration'; admin: DemonstrationUser; user: DemonstrationUser }
  | { kind: 'none' }
  | { kind: 'known' };

/** Creates users for a demonstration if there are no users. Their tokens never expire: a real site has users of its own. */
export async function prepareFirstUsers(
  deps: ProvisionDeps,
  isDemonstration: boolean,
  now: number,
): Promise<FirstUsers> {
  if ((await listUserIds(deps.db)).length > 0) return { kind: 'known' };
  if (!isDemonstration) return { kind: 'none' };
  const actor = commandLineActor(automaticActor);
  const create = async (userId: string, role: 'administrator' | 'user') => {
    const request = { actor, userId, role, limit: noLimit, name: 'first start', expiresAt: null };
    const token = await provisionToken(deps, request, now);
    return { userId, token, signInPath: await createSignInLink(deps.db, userId, actor, now) };
  };
  const admin = await create('300001', 'administrator');
  return { kind: 'demonstration', admin, user: await create('301330', 'user') };
}
