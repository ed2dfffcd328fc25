import { BursarError } from '../../domain/errors.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { findTokenByHash } from '../../store/identity/tokens.ts';
import { findUserByIdentity, insertIdentity, insertUser, nextUserId } from '../../store/identity/users.ts';
import type { Caller } from './actor.ts';
import { enrolInTransaction } from './enrolment.ts';
import type { Identity, OidcVerifier } from './oidc.ts';
import { hashToken } from './tokens.ts';

export interface AuthenticationDeps {
  db: Db;
  oidc: OidcVerifier;
  now(): number;
}

type Authenticated = Omit<Caller, 'tokenHash'>;

/** Turns the value of an Authorization header into the caller. The token is from Bursar or from an OpenID provider. */
export async function authenticate(deps: AuthenticationDeps, authorization: string | undefined): Promise<Caller> {
  const token = bearerToken(authorization);
  const tokenHash = hashToken(token);
  const caller =
    (await findByBursarToken(deps, tokenHash)) ?? (await findOrCreateByIdentity(deps, await deps.oidc.verify(token)));
  return { ...caller, tokenHash };
}

function bearerToken(authorization: string | undefined): string {
  if (authorization === undefined || authorization.trim() === '') {
    throw new BursarError('token_missing', 'Send the header "Authorization: Bearer <ACCESS_TOKEN>".');
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
): Promise<Authenticated | undefined> {
  const record = await findTokenByHash(db, tokenHash);
  if (record === undefined) return undefined;
  if (record.revokedAt !== null)
    throw new BursarError('token_invalid', 'This token has been revoked. Ask for a new one.');
  if (record.expiresAt !== null && record.expiresAt <= now()) {
    throw new BursarError('token_invalid', 'This token has expired. Ask for a new one.');
  }
  return { userId: record.userId, admin: record.admin, validUntil: record.expiresAt ?? Number.POSITIVE_INFINITY };
}

async function findOrCreateByIdentity(
  deps: AuthenticationDeps,
  identity: Identity | undefined,
): Promise<Authenticated> {
  if (identity === undefined)
    throw new BursarError(
      'token_invalid',
      'This token is unknown. Send one that was issued by Bursar or by its OpenID provider.',
    );
  const { issuer, subject, admin } = identity;
  const userId = (await findUserByIdentity(deps.db, issuer, subject)) ?? (await createUserFor(deps, identity));
  return { userId, admin, validUntil: 0 };
}

/** Creates the user of a new identity. If two requests do so at once, the second one finds the user of the first. */
async function createUserFor({ db, now }: AuthenticationDeps, identity: Identity): Promise<string> {
  const { issuer, subject } = identity;
  return await inTransaction(db, async (tx) => {
    const existing = await findUserByIdentity(tx, issuer, subject);
    if (existing !== undefined) return existing;
    const userId = identity.userId ?? (await createNumberedUser(tx, now()));
    await enrolInTransaction(tx, userId, 'user', now());
    await insertIdentity(tx, issuer, subject, userId);
    return userId;
  });
}

/** If two transactions pick the same identifier, one insert fails and its transaction is retried. */
async function createNumberedUser(tx: Tx, now: number): Promise<string> {
  const userId = await nextUserId(tx);
  await insertUser(tx, userId, 'user', now);
  return userId;
}
