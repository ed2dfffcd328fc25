import { allScopes, type SiteRole, type TokenScope, userScopes } from '../../src/domain/identity/policy.ts';
import { enrolUser } from '../../src/services/identity/enrolment.ts';
import { createSecret, hashToken } from '../../src/services/identity/tokens.ts';
import type { Db } from '../../src/store/database/handle.ts';
import { insertToken, noLimit } from '../../src/store/identity/tokens.ts';

export interface TokenOptions {
  /** Like `role: 'administrator'`. */
  admin?: boolean;
  role?: SiteRole;
  /** Default: all, or for the role `user` those without administration. */
  scopes?: Iterable<TokenScope>;
  name?: string;
  validMs?: number;
}

/** Does what `bursar token create` does: creates the user if there is none, and a token. */
export async function createToken(
  db: Db,
  userId: string,
  { admin = false, role = admin ? 'administrator' : 'user', scopes, name = '', validMs }: TokenOptions = {},
): Promise<string> {
  const now = Date.now();
  await enrolUser(db, userId, role, now);
  const expiresAt = validMs === undefined ? null : now + validMs;
  const tokenScopes = scopes ?? (role === 'user' ? userScopes : allScopes);
  return (await storeToken(db, { userId, name, scopes: new Set(tokenScopes), expiresAt }, now)).token;
}

export interface StoredToken {
  userId: string;
  name: string;
  scopes: ReadonlySet<TokenScope>;
  expiresAt: number | null;
}

/** Stores a token of a user who exists, without a record in the audit trail. */
export async function storeToken(db: Db, token: StoredToken, now: number): Promise<{ id: number; token: string }> {
  const secret = createSecret('bursar_');
  const id = await insertToken(db, { ...token, limit: noLimit, hash: hashToken(secret), createdAt: now });
  return { id, token: secret };
}
