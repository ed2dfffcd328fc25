import { BursarError } from '../../domain/errors.ts';
import { allScopes } from '../../domain/identity/policy.ts';
import { findTokenByHash, noLimit, storeTokenUse } from '../../store/identity/tokens.ts';
import type { ServiceDeps } from '../service-deps.ts';
import type { Caller } from './actor.ts';
import type { Origin } from './apply-claims.ts';
import { findOrCreateUser, type IdentityUserDeps } from './identity-user.ts';
import type { Identity } from './oidc/claims.ts';
import { RefusedAccess, userDisabled } from './refused-access.ts';
import { requireSession, type SessionDeps } from './sessions.ts';
import { hashToken } from './tokens.ts';

type AuthenticationDeps = IdentityUserDeps & SessionDeps & Pick<ServiceDeps, 'oidc'>;

type Authenticated = Omit<Caller, 'tokenHash' | 'address' | 'requestId'>;

/** The credentials of a request, and its origin. */
export interface Credentials {
  authorization: string | undefined;
  /** The secret in the session cookie. It counts only without an Authorization header. */
  session?: string | undefined;
  address: string;
  /** The same request was authenticated before: it does not count as a new use of a session. */
  isRepeated?: boolean;
  requestId: string;
}

/** Turns a token or a session into the caller. The token is from Bursar or from an OpenID provider. */
export async function authenticate(
  deps: AuthenticationDeps,
  { authorization, session, address, requestId, isRepeated = false }: Credentials,
): Promise<Caller> {
  if (authorization === undefined && session !== undefined) {
    const sessionHash = hashToken(session);
    return { ...(await findBySession(deps, sessionHash, !isRepeated)), tokenHash: sessionHash, address, requestId };
  }
  const token = bearerToken(authorization);
  const tokenHash = hashToken(token);
  const caller =
    (await findByBursarToken(deps, tokenHash, address)) ??
    (await findByIdentity(deps, await deps.oidc.verify(token), { address, requestId }));
  return { ...caller, tokenHash, address, requestId };
}

function bearerToken(authorization: string | undefined): string {
  if (authorization === undefined || authorization.trim() === '') {
    const message = 'Send the header "Authorization: Bearer <ACCESS_TOKEN>", or sign in at /sign-in/.';
    throw new BursarError('token_missing', message);
  }
  const [, token] = /^Bearer +([\w.~+/=-]+) *$/i.exec(authorization) ?? [];
  if (token === undefined) {
    throw new BursarError('token_invalid', 'The Authorization header must have the form "Bearer <ACCESS_TOKEN>".');
  }
  return token;
}

async function findByBursarToken(
  { db, now }: AuthenticationDeps,
  tokenHash: string,
  address: string,
): Promise<Authenticated | undefined> {
  const record = await findTokenByHash(db, tokenHash);
  if (record === undefined) return undefined;
  const refused = (reason: string) => ({ cause: new RefusedAccess(reason, record.userId, record.id) });
  const advice = 'Create another one at /me/tokens/, or sign in at /sign-in/.';
  if (record.revokedAt !== null)
    throw new BursarError('token_invalid', `This token has been revoked. ${advice}`, refused('a revoked token'));
  if (record.expiresAt !== null && record.expiresAt <= now())
    throw new BursarError('token_invalid', `This token has expired. ${advice}`, refused('an expired token'));
  if (record.ownerDisabledAt !== null) throw userDisabled(record.userId, record.id);
  const { id: tokenId, userId, role, scopes, limit, expiresAt } = record;
  const day = new Date(now()).toISOString().slice(0, 'YYYY-MM-DD'.length);
  // Not awaited, and repeated by the next request if it fails: a request must not fail because of it.
  if (record.lastUsedOn !== day) void storeTokenUse(db, tokenId, day, address).catch(() => undefined);
  return { userId, role, scopes, tokenId, sessionId: null, limit, validUntil: expiresAt ?? Number.POSITIVE_INFINITY };
}

/** A session can do whatever its user can. */
async function findBySession(deps: AuthenticationDeps, sessionHash: string, isUse: boolean): Promise<Authenticated> {
  const { id: sessionId, userId, role, endsAt } = await requireSession(deps, sessionHash, isUse);
  return { userId, role, scopes: allScopes, tokenId: null, sessionId, limit: noLimit, validUntil: endsAt };
}

async function findByIdentity(
  deps: AuthenticationDeps,
  identity: Identity | undefined,
  origin: Origin,
): Promise<Authenticated> {
  if (identity === undefined) {
    const message = 'This token is unknown. Send one that was issued by Bursar or by its OpenID provider.';
    throw new BursarError('token_invalid', message);
  }
  const { userId, role } = await findOrCreateUser(deps, identity, origin);
  return { userId, role, scopes: allScopes, tokenId: null, sessionId: null, limit: noLimit, validUntil: 0 };
}
