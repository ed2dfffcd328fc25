import { allScopes, type SiteRole, type TokenScope, userScopes } from '../../src/domain/identity/policy.ts';
import { enrolUser } from '../../src/services/identity/enrolment.ts';
import { issueToken } from '../../src/services/identity/tokens.ts';
import type { Db } from '../../src/store/database/handle.ts';

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
  return (await issueToken(db, { userId, name, scopes: new Set(tokenScopes), expiresAt }, now)).token;
}
