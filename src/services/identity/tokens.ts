import { hash, randomBytes } from 'node:crypto';
import { BursarError } from '../../domain/errors.ts';
import { formatScopes, type TokenScope } from '../../domain/identity/policy.ts';
import type { Tx } from '../../store/database/handle.ts';
import { type AuditActor, insertAudit } from '../../store/identity/audit.ts';
import { countValidTokens, insertToken, noLimit, type TokenLimit } from '../../store/identity/tokens.ts';

/** Scanners for leaked secrets find tokens of Bursar by this prefix. */
export const tokenPrefix = 'bursar_';

export interface TokenRequest {
  userId: string;
  name: string;
  scopes: ReadonlySet<TokenScope>;
  /** Default: all systems. */
  limit?: TokenLimit;
  expiresAt: number | null;
}

/**
 * Creates a token for an existing user. Only its hash is stored, so the token cannot be shown again. The record in the audit
 * trail is the last statement.
 */
export async function issueToken(
  tx: Tx,
  { limit = noLimit, ...request }: TokenRequest,
  { actor, details = {} }: { actor: AuditActor; details?: Readonly<Record<string, unknown>> },
  now: number,
): Promise<{ id: number; token: string }> {
  const token = createSecret(tokenPrefix);
  const { userId, name, scopes } = request;
  const id = await insertToken(tx, { ...request, limit, hash: hashToken(token), createdAt: now });
  await insertAudit(tx, {
    actor,
    action: 'token.create',
    subject: `${userId}/${id}`,
    details: { name, scopes: formatScopes(scopes), ...details },
    at: now,
  });
  return { id, token };
}

/** More than anybody keeps track of. */
const maxValidTokens = 100;
export const tooManyTokens = `You have ${maxValidTokens} valid tokens. Revoke one that you do not need: GET /me/tokens/ lists them.`;

/**
 * Like `issueToken`, for a user who asks for it, who may have a limited number of tokens. They are counted after the
 * record in the audit trail, because that makes concurrent requests wait.
 */
export async function issueRequestedToken(
  ...[tx, request, audit, now]: Parameters<typeof issueToken>
): Promise<{ id: number; token: string }> {
  const issued = await issueToken(tx, request, audit, now);
  if ((await countValidTokens(tx, request.userId, now)) > maxValidTokens)
    throw new BursarError('too_many_tokens', tooManyTokens);
  return issued;
}

export async function hasRoomForToken(tx: Tx, userId: string, now: number): Promise<boolean> {
  return (await countValidTokens(tx, userId, now)) < maxValidTokens;
}

type SecretPrefix = 'bursar_' | `bursar_${'session' | 'code' | 'attempt' | 'device'}_`;

/** All secrets of Bursar have the prefix `bursar_`, so that one pattern finds them in logs and in published files. */
export function createSecret(prefix: SecretPrefix): string {
  return prefix + randomBytes(32).toString('base64url');
}

/** A plain hash is enough: a secret has 256 random bits, so it cannot be guessed from its hash. */
export function hashToken(token: string): string {
  return hash('sha256', token);
}
