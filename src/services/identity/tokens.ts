import { hash, randomBytes } from 'node:crypto';
import type { Db } from '../../store/database/handle.ts';
import { insertToken } from '../../store/identity/tokens.ts';

export interface TokenRequest {
  userId: string;
  name: string;
  admin: boolean;
  expiresAt: number | null;
}

/** Creates a token for an existing user. Only its hash is stored, so the token cannot be shown again. */
export async function issueToken(db: Db, request: TokenRequest, now: number): Promise<string> {
  const token = `bursar_${randomBytes(32).toString('base64url')}`;
  await insertToken(db, { ...request, hash: hashToken(token), createdAt: now });
  return token;
}

/** A plain hash is enough: a token has 256 random bits, so it cannot be guessed from its hash. */
export function hashToken(token: string): string {
  return hash('sha256', token);
}
