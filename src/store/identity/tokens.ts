import type { Db } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';

export interface NewToken {
  userId: string;
  /** Only the hash is stored, so that a reader of the database cannot use the token. */
  hash: string;
  name: string;
  admin: boolean;
  createdAt: number;
  expiresAt: number | null;
}

export interface TokenRecord {
  id: number;
  userId: string;
  name: string;
  /** True only if both the token and its user have the admin role. */
  admin: boolean;
  createdAt: number;
  expiresAt: number | null;
  revokedAt: number | null;
}

export async function insertToken(db: Db, token: NewToken): Promise<number> {
  const row = await db
    .insertInto('tokens')
    .values({
      user_id: token.userId,
      hash: token.hash,
      name: token.name,
      admin: token.admin ? 1 : 0,
      created_at: token.createdAt,
      expires_at: token.expiresAt,
      revoked_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return row.id;
}

const selectByHash = prepareQuery((db, param: Param<{ hash: string }>) =>
  selectTokens(db).where('hash', '=', param('hash')),
);

export async function findTokenByHash(db: Db, hash: string): Promise<TokenRecord | undefined> {
  const [row] = await selectByHash(db, { hash });
  return row && toTokenRecord(row);
}

export async function listTokens(db: Db, userId?: string): Promise<TokenRecord[]> {
  const query = selectTokens(db).orderBy('tokens.id');
  const rows = await (userId === undefined ? query : query.where('user_id', '=', userId)).execute();
  return rows.map(toTokenRecord);
}

/** Returns false if there is no such token. Revoking it again changes nothing. */
export async function revokeToken(db: Db, id: number, now: number): Promise<boolean> {
  const row = await db
    .updateTable('tokens')
    .set((eb) => ({ revoked_at: eb.fn.coalesce('revoked_at', eb.val(now)) }))
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

type TokenRow = Awaited<ReturnType<ReturnType<typeof selectTokens>['executeTakeFirstOrThrow']>>;

function selectTokens(db: Db) {
  return db
    .selectFrom('tokens')
    .innerJoin('users', 'users.id', 'tokens.user_id')
    .select([
      'tokens.id',
      'tokens.user_id',
      'tokens.name',
      'tokens.admin',
      'tokens.created_at',
      'tokens.expires_at',
      'tokens.revoked_at',
      'users.role',
    ]);
}

function toTokenRecord(row: TokenRow): TokenRecord {
  return {
    id: row.id,
    userId: row.user_id,
    name: row.name,
    admin: row.admin === 1 && row.role === 'admin',
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
  };
}
