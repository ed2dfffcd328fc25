import { createHash, randomBytes } from 'node:crypto';
import { BursarError } from '../domain/errors.ts';
import type { Db } from '../store/tables.ts';
import { insertToken, tokenByHash } from '../store/tokens.ts';
import type { Actor } from './actor.ts';

export interface TokenRequest {
  userId: string;
  name: string;
  admin: boolean;
  expiresAt: number | null;
}

/** A new token for a known user. This is the only moment at which anybody can see it. */
export async function issueToken(db: Db, request: TokenRequest, now: number): Promise<string> {
  const token = `bursar_${randomBytes(32).toString('base64url')}`;
  await insertToken(db, { ...request, hash: hashOf(token), createdAt: now });
  return token;
}

/** The caller behind the value of an Authorization header. */
export async function authenticate(db: Db, authorization: string | undefined, now: number): Promise<Actor> {
  if (authorization === undefined || authorization.trim() === '') {
    throw new BursarError('token_missing', 'Send the header "Authorization: Bearer <ACCESS_TOKEN>".');
  }
  const [, token] = /^Bearer +([\w.~+/=-]+) *$/i.exec(authorization) ?? [];
  if (token === undefined) {
    throw new BursarError('token_invalid', 'The Authorization header must have the form "Bearer <ACCESS_TOKEN>".');
  }
  const record = await tokenByHash(db, hashOf(token));
  if (record === undefined) throw new BursarError('token_invalid', 'This token is not known here.');
  if (record.revokedAt !== null) throw new BursarError('token_invalid', 'This token has been revoked.');
  if (record.expiresAt !== null && record.expiresAt <= now) {
    throw new BursarError('token_invalid', 'This token has expired.');
  }
  return { userId: record.userId, admin: record.admin };
}

/** A token is 256 random bits, so a plain hash cannot be guessed back. */
function hashOf(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
