import type { Db, Tx } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';
import type { NewRow } from '../database/tables.ts';

export type SessionRecord = Awaited<ReturnType<typeof listSessions>>[number];

export async function insertSession(tx: Tx, session: NewRow<'sessions'>): Promise<number> {
  const { id } = await tx.insertInto('sessions').values(session).returning('id').executeTakeFirstOrThrow();
  return id;
}

const selectByHash = prepareQuery((db, param: Param<{ hash: string }>) =>
  selectSessions(db).where('sessions.hash', '=', param('hash')),
);

export async function findSessionByHash(db: Db, hash: string): Promise<SessionRecord | undefined> {
  const [row] = await selectByHash(db, { hash });
  return row;
}

/** Lists the sessions of a user that have not ended. A session that was not used for `idleMs` has. */
export async function listSessions(db: Db, userId: string, { now, idleMs }: { now: number; idleMs: number }) {
  return await selectSessions(db)
    .where('sessions.userId', '=', userId)
    .where('sessions.revokedAt', 'is', null)
    .where('sessions.expiresAt', '>', now)
    .where('sessions.lastUsedAt', '>', now - idleMs)
    .orderBy('sessions.id')
    .execute();
}

/** Returns false if the session was revoked before. */
export async function revokeSession(tx: Tx, id: number, now: number): Promise<boolean> {
  const row = await tx
    .updateTable('sessions')
    .set({ revokedAt: now, idToken: null })
    .where('id', '=', id)
    .where('revokedAt', 'is', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

export async function storeSessionUse(db: Db, id: number, now: number): Promise<void> {
  await db.updateTable('sessions').set({ lastUsedAt: now }).where('id', '=', id).execute();
}

function selectSessions(db: Db) {
  return db
    .selectFrom('sessions')
    .innerJoin('users', 'users.id', 'sessions.userId')
    .selectAll('sessions')
    .select(['users.role', 'users.disabledAt as userDisabledAt']);
}
