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

/** The caller behind the value of an Authorization header: by a token of Bursar's own, or of an OpenID provider. */
export async function authenticate(deps: AuthenticationDeps, authorization: string | undefined): Promise<Caller> {
  const token = bearerToken(authorization);
  const tokenHash = hashToken(token);
  const caller = (await byOwnToken(deps, tokenHash)) ?? (await byIdentity(deps, await deps.oidc.verify(token)));
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

async function byOwnToken({ db, now }: AuthenticationDeps, tokenHash: string): Promise<Authenticated | undefined> {
  const record = await findTokenByHash(db, tokenHash);
  if (record === undefined) return undefined;
  if (record.revokedAt !== null)
    throw new BursarError('token_invalid', 'This token has been revoked. Ask for a new one.');
  if (record.expiresAt !== null && record.expiresAt <= now()) {
    throw new BursarError('token_invalid', 'This token has expired. Ask for a new one.');
  }
  return { userId: record.userId, admin: record.admin, validUntil: record.expiresAt ?? Number.POSITIVE_INFINITY };
}

async function byIdentity(deps: AuthenticationDeps, identity: Identity | undefined): Promise<Authenticated> {
  if (identity === undefined)
    throw new BursarError(
      'token_invalid',
      'This token is not known here. Send one that Bursar or its OpenID provider has issued.',
    );
  const { issuer, subject, admin } = identity;
  const known = await findUserByIdentity(deps.db, issuer, subject);
  return { userId: known ?? (await atFirstSight(deps, identity)), admin, validUntil: 0 };
}

/** Creates the user of a new identity. Two requests may come to this at once: the second one finds the first's. */
async function atFirstSight({ db, now }: AuthenticationDeps, identity: Identity): Promise<string> {
  const { issuer, subject } = identity;
  return await inTransaction(db, async (tx) => {
    const known = await findUserByIdentity(tx, issuer, subject);
    if (known !== undefined) return known;
    const userId = identity.userId ?? (await newUser(tx, now()));
    await enrolInTransaction(tx, userId, 'user', now());
    await insertIdentity(tx, issuer, subject, userId);
    return userId;
  });
}

/** Two at once may find the same identifier unused: for one of them this fails, and it looks again. */
async function newUser(tx: Tx, now: number): Promise<string> {
  const userId = await nextUserId(tx);
  await insertUser(tx, userId, 'user', now);
  return userId;
}
