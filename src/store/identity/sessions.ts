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
      user_id: session.userId,
      hash: session.hash,
      created_at: session.createdAt,
      last_used_at: session.createdAt,
      expires_at: session.expiresAt,
      address: session.address,
      user_agent: session.userAgent,
      issuer: session.provider?.issuer ?? null,
      id_token: session.provider?.idToken ?? null,
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
    .where('sessions.user_id', '=', userId)
    .where('sessions.revoked_at', 'is', null)
    .where('sessions.expires_at', '>', now)
    .where('sessions.last_used_at', '>', now - idleMs)
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
    .set({ revoked_at: now, id_token: null })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

export async function storeSessionUse(db: Db, id: number, now: number): Promise<void> {
  await db.updateTable('sessions').set({ last_used_at: now }).where('id', '=', id).execute();
}

type SessionRow = Awaited<ReturnType<ReturnType<typeof selectSessions>['executeTakeFirstOrThrow']>>;

function selectSessions(db: Db) {
  return db
    .selectFrom('sessions')
    .innerJoin('users', 'users.id', 'sessions.user_id')
    .select([
      'sessions.id',
      'sessions.user_id as userId',
      'sessions.created_at as createdAt',
      'sessions.last_used_at as lastUsedAt',
      'sessions.expires_at as expiresAt',
      'sessions.address',
      'sessions.user_agent as userAgent',
      'sessions.issuer',
      'sessions.id_token as idToken',
      'sessions.revoked_at as revokedAt',
      'users.role',
      'users.disabled_at',
    ]);
}

function toRecord({ disabled_at: disabledAt, ...row }: SessionRow): SessionRecord {
  return { ...row, isUserDisabled: disabledAt !== null };
}
