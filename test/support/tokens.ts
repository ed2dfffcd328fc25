import { enrolUser } from '../../src/services/identity/enrolment.ts';
import { issueToken } from '../../src/services/identity/tokens.ts';
import type { Db } from '../../src/store/database/handle.ts';

export interface TokenOptions {
  admin?: boolean;
  name?: string;
  validMs?: number;
}

/** Does what `bursar token create` does: creates the user if there is none, and a token. */
export async function createToken(
  db: Db,
  userId: string,
  { admin = false, name = '', validMs }: TokenOptions = {},
): Promise<string> {
  const now = Date.now();
  await enrolUser(db, userId, admin ? 'admin' : 'user', now);
  return await issueToken(db, { userId, name, admin, expiresAt: validMs === undefined ? null : now + validMs }, now);
}
