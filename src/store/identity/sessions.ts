import type { SiteRole } from '../../domain/identity/policy.ts';
import type { Db, Tx } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';

export interface NewSession {
  userId: string;
  hash: string;
  createdAt: number;
  /** The absolute end. */
  expiresAt: number;
  address: string;
  userAgent: string;
  /** Null for a session that began with a sign-in link. */
  provider: { issuer: string; idToken: string | null } | null;
}

export interface SessionRecord {
  id: number;
  userId: string;
  createdAt: number;
  lastUsedAt: number;
  expiresAt: number;
  address: string;
  userAgent: string;
  issuer: string | null;
  idToken: string | null;
  revokedAt: number | null;
  /** Of the user. */
  role: SiteRole;
  isUserDisabled: boolean;
}

export async function insertSession(tx: Tx, session: NewSession): Promise<number> {
  const { id } = await tx
    .insertInto('sessions')
    .values({
      userId: session.userId,
      hash: session.hash,
      createdAt: session.createdAt,
      lastUsedAt: session.createdAt,
      expiresAt: session.expiresAt,
      address: session.address,
      userAgent: session.userAgent,
      issuer: session.provider?.issuer ?? null,
      idToken: session.provider?.idToken ?? null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

const selectByHash = prepareQuery((db, param: Param<{ hash: string }>) =>
  selectSessions(db).where('sessions.hash', '=', param('hash')),
);

export async function findSessionByHash(db: Db, hash: string): Promise<SessionRecord | undefined> {
  const [row] = await selectByHash(db, { hash });
  return row && toRecord(row);
}

/** Lists the sessions of a user that have not ended. */
export async function listSessions(db: Db, userId: string, { now, idleMs }: Clock): Promise<SessionRecord[]> {
  const rows = await selectSessions(db)
    .where('sessions.userId', '=', userId)
    .where('sessions.revokedAt', 'is', null)
    .where('sessions.expiresAt', '>', now)
    .where('sessions.lastUsedAt', '>', now - idleMs)
    .orderBy('sessions.id')
    .execute();
  return rows.map(toRecord);
}

export interface Clock {
  now: number;
  /** A session that was not used for so long has ended. */
  idleMs: number;
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

type SessionRow = Awaited<ReturnType<ReturnType<typeof selectSessions>['executeTakeFirstOrThrow']>>;

function selectSessions(db: Db) {
  return db
    .selectFrom('sessions')
    .innerJoin('users', 'users.id', 'sessions.userId')
    .select([
      'sessions.id',
      'sessions.userId',
      'sessions.createdAt',
      'sessions.lastUsedAt',
      'sessions.expiresAt',
      'sessions.address',
      'sessions.userAgent',
      'sessions.issuer',
      'sessions.idToken',
      'sessions.revokedAt',
      'users.role',
      'users.disabledAt',
    ]);
}

function toRecord({ disabledAt, ...row }: SessionRow): SessionRecord {
  return { ...row, isUserDisabled: disabledAt !== null };
}
