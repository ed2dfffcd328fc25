import { toHpcSystems } from '../../../config/hpc-systems.ts';
import { BursarError } from '../../../domain/errors.ts';
import { parseScopeList, type SiteRole, type TokenScope, tokenScopes } from '../../../domain/identity/policy.ts';
import { revokeToken } from '../../../services/identity/account.ts';
import { commandLineActor } from '../../../services/identity/actor.ts';
import { provisionToken } from '../../../services/identity/provision-token.ts';
import { findToken, listTokens, type TokenRecord } from '../../../store/identity/tokens.ts';
import { formatTable } from '../format-table.ts';
import type { OperatorContext } from '../operator.ts';
import { parseReason } from '../reason.ts';
import { parseDurationMs } from './duration.ts';

interface CreateOptions {
  user: string;
  admin: boolean;
  role?: SiteRole;
  scopes?: string;
  hpc?: string;
  project?: string;
  name: string;
  expires?: string;
  reason?: string;
  /** The name in the audit trail. */
  actor: string;
}

export async function createToken(
  { config, withDatabase, print }: OperatorContext,
  options: CreateOptions,
): Promise<void> {
  const { user: userId, admin, hpc = null, project = null, name, expires, reason, actor } = options;
  const lifetimeMs = expires === undefined ? null : parseDurationMs(expires);
  const request = {
    actor: commandLineActor(actor),
    reason: reason === undefined ? undefined : parseReason(reason),
    userId,
    role: admin ? 'administrator' : options.role,
    scopes: options.scopes === undefined ? undefined : requireScopes(options.scopes),
    limit: { hpc, project },
    name,
  } as const;
  const token = await withDatabase(async (db) => {
    const now = Date.now();
    const expiresAt = lifetimeMs === null ? null : now + lifetimeMs;
    return await provisionToken(
      { db, systems: toHpcSystems(config), providers: config.oidc },
      { ...request, expiresAt },
      now,
    );
  });
  print(`${token}\n`);
}

function requireScopes(text: string): ReadonlySet<TokenScope> {
  const { scopes, unknown } = parseScopeList(text);
  if (scopes.size > 0 && unknown.length === 0) return scopes;
  throw new BursarError('invalid_argument', `Scopes are some of ${tokenScopes.join(', ')}, separated by spaces.`);
}

export async function printTokens(
  { withDatabase, print }: OperatorContext,
  options: { user?: string; json: boolean },
): Promise<void> {
  const tokens = await withDatabase((db) => listTokens(db, options.user));
  const rows = tokens.map((token) => ({
    id: token.id,
    user: token.userId,
    name: token.name,
    role: token.role,
    scopes: [...token.scopes],
    limit: token.limit.project === null ? token.limit.hpc : `${token.limit.hpc}/${token.limit.project}`,
    created: toIsoOrNull(token.createdAt),
    expires: toIsoOrNull(token.expiresAt),
    last_used: token.lastUsedOn,
    state: tokenState(token, Date.now()),
  }));
  if (options.json) {
    print(`${JSON.stringify(rows, null, 2)}\n`);
    return;
  }
  const header = ['ID', 'USER', 'NAME', 'ROLE', 'SCOPES', 'LIMIT', 'CREATED', 'EXPIRES', 'USED', 'STATE'];
  const lines = rows.map((row) => [
    String(row.id),
    row.user,
    row.name || '-',
    row.role,
    row.scopes.join(' '),
    row.limit ?? '-',
    row.created ?? '-',
    row.expires ?? 'never',
    row.last_used ?? 'never',
    row.state,
  ]);
  print(formatTable([header, ...lines]));
}

export async function revoke(
  { withDatabase, print }: OperatorContext,
  id: string,
  options: { reason: string; actor: string },
): Promise<void> {
  if (!/^\d{1,15}$/.test(id))
    throw new BursarError('invalid_argument', 'Give the number of the token, as shown by "token list".');
  const reason = parseReason(options.reason);
  await withDatabase(async (db) => {
    const token = await findToken(db, Number(id));
    if (token === undefined) throw new BursarError('not_found', `There is no token ${id}.`);
    // A running server finds the change at the next request, and at the next heartbeat of a stream.
    const deps = { db, now: Date.now, accessTopic: { publish: () => undefined } };
    await revokeToken(deps, commandLineActor(options.actor), token.userId, token.id, reason);
  });
  print(`Token ${id} is revoked.\n`);
}

function tokenState(token: TokenRecord, now: number): string {
  if (token.revokedAt !== null) return 'revoked';
  return token.expiresAt !== null && token.expiresAt <= now ? 'expired' : 'valid';
}

function toIsoOrNull(epochMs: number | null): string | null {
  return epochMs === null ? null : new Date(epochMs).toISOString();
}
