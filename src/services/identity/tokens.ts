import { hash, randomBytes } from 'node:crypto';
import { formatScopes, type TokenScope } from '../../domain/identity/policy.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { type AuditActor, insertAudit } from '../../store/identity/audit.ts';
import { insertToken, noLimit, type TokenLimit } from '../../store/identity/tokens.ts';

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

/** Creates a token for an existing user. Only its hash is stored, so the token cannot be shown again. */
export async function issueToken(
  db: Db,
  { limit = noLimit, ...request }: TokenRequest,
  now: number,
): Promise<{ id: number; token: string }> {
  const token = createSecret(tokenPrefix);
  const id = await insertToken(db, { ...request, limit, hash: hashToken(token), createdAt: now });
  return { id, token };
}

/** Like `issueToken`, with a record in the audit trail, which is the last statement. */
export async function issueRecordedToken(
  tx: Tx,
  request: TokenRequest,
  { actor, details = {} }: { actor: AuditActor; details?: Readonly<Record<string, unknown>> },
  now: number,
): Promise<{ id: number; token: string }> {
  const issued = await issueToken(tx, request, now);
  const { userId, name, scopes } = request;
  await insertAudit(tx, {
    actor,
    act: 'token.create',
    subject: `${userId}/${issued.id}`,
    details: { name, scopes: formatScopes(scopes), ...details },
    at: now,
  });
  return issued;
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
