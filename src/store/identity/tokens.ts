import { formatScopes, parseScopes, type TokenScope } from '../../domain/identity/policy.ts';
import type { Db, Tx } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';
import type { NewRow } from '../database/tables.ts';

export type NewToken = Omit<NewRow<'tokens'>, 'scopes' | 'hpc' | 'projectName'> & {
  scopes: ReadonlySet<TokenScope>;
  limit: TokenLimit;
};

/** The only system, and the only project, that a token can be used for. Null: all of them. */
export interface TokenLimit {
  hpc: string | null;
  project: string | null;
}

/** For all systems and projects. */
export const noLimit: TokenLimit = { hpc: null, project: null };

export type TokenRecord = ReturnType<typeof toTokenRecord>;

export async function insertToken(db: Db, { scopes, limit, ...token }: NewToken): Promise<number> {
  const row = await db
    .insertInto('tokens')
    .values({ ...token, scopes: formatScopes(scopes), hpc: limit.hpc, projectName: limit.project })
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

export async function findToken(db: Db, id: number): Promise<TokenRecord | undefined> {
  const row = await selectTokens(db).where('tokens.id', '=', id).executeTakeFirst();
  return row && toTokenRecord(row);
}

export async function listTokens(db: Db, userId?: string): Promise<TokenRecord[]> {
  const query = selectTokens(db).orderBy('tokens.id');
  const rows = await (userId === undefined ? query : query.where('userId', '=', userId)).execute();
  return rows.map(toTokenRecord);
}

/** Lists tokens of a user, newest first, those before an id if it is given. */
export async function listTokenPage(
  db: Db,
  userId: string,
  { limit, before }: { limit: number; before?: number | undefined },
): Promise<TokenRecord[]> {
  let query = selectTokens(db).where('userId', '=', userId).orderBy('tokens.id', 'desc').limit(limit);
  if (before !== undefined) query = query.where('tokens.id', '<', before);
  return (await query.execute()).map(toTokenRecord);
}

export async function countValidTokens(db: Db, userId: string, now: number): Promise<number> {
  const { count } = await db
    .selectFrom('tokens')
    .select((eb) => eb.fn.countAll().as('count'))
    .where('userId', '=', userId)
    .where('revokedAt', 'is', null)
    .where((eb) => eb.or([eb('expiresAt', 'is', null), eb('expiresAt', '>', now)]))
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** Returns false if there is no such token. Revoking it again changes nothing. */
export async function revokeToken(db: Db, id: number, now: number): Promise<boolean> {
  const row = await db
    .updateTable('tokens')
    .set((eb) => ({ revokedAt: eb.fn.coalesce('revokedAt', eb.val(now)) }))
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/** Stores the first use of a token on a day. */
export async function storeTokenUse(db: Db, id: number, day: string, address: string): Promise<void> {
  await db.updateTable('tokens').set({ lastUsedOn: day, lastUsedFrom: address }).where('id', '=', id).execute();
}

/**
 * Lists the tokens that end within `noticeMs`, and whose owners have not been notified. Tokens that live no longer than that,
 * and those of disabled users, are left out.
 */
export async function listTokensToNotify(db: Db, now: number, noticeMs: number) {
  return await db
    .selectFrom('tokens')
    .innerJoin('users', 'users.id', 'tokens.userId')
    .select(['tokens.id', 'tokens.userId', 'tokens.name', 'tokens.expiresAt'])
    .$narrowType<{ expiresAt: number }>()
    .where('tokens.announcedAt', 'is', null)
    .where('tokens.revokedAt', 'is', null)
    .where('tokens.expiresAt', '>', now)
    .where('tokens.expiresAt', '<=', now + noticeMs)
    .where((eb) => eb(eb('tokens.expiresAt', '-', eb.ref('tokens.createdAt')), '>', noticeMs))
    .where('users.disabledAt', 'is', null)
    .orderBy('tokens.expiresAt')
    .execute();
}

/** Returns true to exactly one caller, who notifies the owner; false if the token was revoked meanwhile. */
export async function markTokenNotified(tx: Tx, id: number, now: number): Promise<boolean> {
  const row = await tx
    .updateTable('tokens')
    .set({ announcedAt: now })
    .where('id', '=', id)
    .where('announcedAt', 'is', null)
    .where('revokedAt', 'is', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/** With the role of the owner. */
function selectTokens(db: Db) {
  return db
    .selectFrom('tokens')
    .innerJoin('users', 'users.id', 'tokens.userId')
    .selectAll('tokens')
    .select(['users.role', 'users.disabledAt as ownerDisabledAt']);
}

type TokenRow = Awaited<ReturnType<ReturnType<typeof selectTokens>['executeTakeFirstOrThrow']>>;

function toTokenRecord({ scopes, ...row }: TokenRow) {
  return { ...row, scopes: parseScopes(scopes), limit: { hpc: row.hpc, project: row.projectName } };
}
