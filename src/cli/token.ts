import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { enrolUser } from '../services/identity/enrolment.ts';
import { issueToken } from '../services/identity/tokens.ts';
import { sendNotifications } from '../store/database/pg-notify.ts';
import { listTokens, revokeToken, type TokenRecord } from '../store/identity/tokens.ts';
import { durationMs } from './duration.ts';
import { withDatabase } from './with-database.ts';

interface CreateOptions {
  user: string;
  admin: boolean;
  name: string;
  expires?: string;
}

export async function createToken(config: Config, options: CreateOptions): Promise<void> {
  const { user: userId, admin, name, expires } = options;
  const validMs = expires === undefined ? null : durationMs(expires);
  const token = await withDatabase(config, async (db) => {
    const now = Date.now();
    const expiresAt = validMs === null ? null : now + validMs;
    await enrolUser(db, userId, admin ? 'admin' : 'user', now);
    return await issueToken(db, { userId, name, admin, expiresAt }, now);
  });
  process.stdout.write(`${token}\n`);
}

export async function showTokens(config: Config, options: { user?: string; json: boolean }): Promise<void> {
  const tokens = await withDatabase(config, (db) => listTokens(db, options.user));
  const rows = tokens.map((token) => ({
    id: token.id,
    user: token.userId,
    name: token.name,
    admin: token.admin,
    created: isoOrNull(token.createdAt),
    expires: isoOrNull(token.expiresAt),
    state: stateOf(token, Date.now()),
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
  process.stdout.write(table([header, ...lines]));
}

export async function revoke(config: Config, id: string): Promise<void> {
  if (!/^\d{1,15}$/.test(id))
    throw new BursarError('invalid_argument', 'Name the token by its number, see "token list".');
  const known = await withDatabase(config, async (db) => {
    const isKnown = await revokeToken(db, Number(id), Date.now());
    await sendNotifications(db, [`token ${id}`]);
    return isKnown;
  });
  if (!known) throw new BursarError('not_found', `There is no token ${id}.`);
  process.stdout.write(`Token ${id} is revoked.\n`);
}

function stateOf(token: TokenRecord, now: number): string {
  if (token.revokedAt !== null) return 'revoked';
  return token.expiresAt !== null && token.expiresAt <= now ? 'expired' : 'valid';
}

function isoOrNull(epochMs: number | null): string | null {
  return epochMs === null ? null : new Date(epochMs).toISOString();
}

function table(rows: readonly string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  const line = (row: string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
  return `${rows.map((row) => line(row).trimEnd()).join('\n')}\n`;
}
