import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { enrolUser } from '../services/identity/enrolment.ts';
import { issueToken } from '../services/identity/tokens.ts';
import { listTokens, revokeToken, type TokenRecord } from '../store/identity/tokens.ts';
import { parseDurationMs } from './duration.ts';
import { withDatabase } from './with-database.ts';

interface CreateOptions {
  user: string;
  admin: boolean;
  name: string;
  expires?: string;
}

export async function createToken(config: Config, options: CreateOptions): Promise<void> {
  const { user: userId, admin, name, expires } = options;
  const lifetimeMs = expires === undefined ? null : parseDurationMs(expires);
  const token = await withDatabase(config, async (db) => {
    const now = Date.now();
    const expiresAt = lifetimeMs === null ? null : now + lifetimeMs;
    await enrolUser(db, userId, admin ? 'admin' : 'user', now);
    return await issueToken(db, { userId, name, admin, expiresAt }, now);
  });
  process.stdout.write(`${token}\n`);
}

export async function printTokens(config: Config, options: { user?: string; json: boolean }): Promise<void> {
  const tokens = await withDatabase(config, (db) => listTokens(db, options.user));
  const rows = tokens.map((token) => ({
    id: token.id,
    user: token.userId,
    name: token.name,
    admin: token.admin,
    created: toIsoOrNull(token.createdAt),
    expires: toIsoOrNull(token.expiresAt),
    state: tokenState(token, Date.now()),
  }));
  if (options.json) {
    process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
    return;
  }
  const header = ['ID', 'USER', 'NAME', 'ROLE', 'CREATED', 'EXPIRES', 'STATE'];
  const lines = rows.map((row) => [
    String(row.id),
    row.user,
    row.name || '-',
    row.admin ? 'admin' : 'user',
    row.created ?? '-',
    row.expires ?? 'never',
    row.state,
  ]);
  process.stdout.write(formatTable([header, ...lines]));
}

export async function revoke(config: Config, id: string): Promise<void> {
  if (!/^\d{1,15}$/.test(id))
    throw new BursarError('invalid_argument', 'Give the number of the token, as shown by "token list".');
  const exists = await withDatabase(config, (db) => revokeToken(db, Number(id), Date.now()));
  if (!exists) throw new BursarError('not_found', `There is no token ${id}.`);
  process.stdout.write(`Token ${id} is revoked.\n`);
}

function tokenState(token: TokenRecord, now: number): string {
  if (token.revokedAt !== null) return 'revoked';
  return token.expiresAt !== null && token.expiresAt <= now ? 'expired' : 'valid';
}

function toIsoOrNull(epochMs: number | null): string | null {
  return epochMs === null ? null : new Date(epochMs).toISOString();
}

function formatTable(rows: readonly string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  const line = (row: string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
  return `${rows.map((row) => line(row).trimEnd()).join('\n')}\n`;
}
