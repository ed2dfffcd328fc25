import { hash, randomBytes } from 'node:crypto';
import type { Db } from '../../store/database/handle.ts';
import { insertToken } from '../../store/identity/tokens.ts';

export interface TokenRequest {
  userId: string;
  name: string;
  admin: boolean;
  expiresAt: number | null;
}

/** A new token for a known user. This is the only moment at which anybody can see it. */
export async function issueToken(db: Db, request: TokenRequest, now: number): Promise<string> {
  const token = `bursar_${randomBytes(32).toString('base64url')}`;
  await insertToken(db, { ...request, hash: hashToken(token), createdAt: now });
  return token;
}

/** A token is 256 random bits, so a plain hash cannot be guessed back. */
export function hashToken(token: string): string {
  return hash('sha256', token);
}
