import type { Static } from 'typebox';
import type { SessionSchema } from '../../contract/account.ts';
import { toIsoTime } from '../../contract/fields.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import {
  findSessionByHash,
  insertSession,
  listSessions,
  revokeSession,
  type SessionRecord,
  storeSessionUse,
} from '../../store/identity/sessions.ts';
import { requireEnabledUser } from './access.ts';
import type { Actor, Caller } from './actor.ts';
import { RefusedAccess, userDisabled } from './refused-access.ts';
import { createSecret, hashToken } from './tokens.ts';

export interface SessionDeps {
  db: Db;
  /** A session that was not used for so long has ended. */
  idleMs: number;
  /** The longest life of a session, however often it is used. */
  maxMs: number;
  now(): number;
}

/** A browser that is about to sign in. */
export interface Visitor {
  address: string;
  userAgent: string;
  requestId: string;
  /** The secret of the session that the browser has. */
  session: string | undefined;
}

/** A session that has just begun. The secret goes to the browser, and only its hash is stored. */
export interface StartedSession {
  secret: string;
  maxAgeSeconds: number;
}

const maxUserAgentLength = 200;

/**
 * Starts a session. The browser always gets a new secret, and a session that it had before ends: a secret that somebody
 * placed in the browser is worth nothing after the sign-in.
 */
export async function startSession(
  tx: Tx,
  { maxMs, now }: SessionDeps,
  visitor: Visitor,
  { userId, provider }: { userId: string; provider: { issuer: string; idToken: string | null } | null },
): Promise<StartedSession> {
  await requireEnabledUser(tx, userId);
  const at = now();
  const previous = visitor.session && (await findSessionByHash(tx, hashToken(visitor.session)));
  if (previous) await revokeSession(tx, previous.id, at);
  const secret = createSecret('bursar_session_');
  const { address, requestId } = visitor;
  const userAgent = visitor.userAgent.slice(0, maxUserAgentLength);
  const times = { createdAt: at, lastUsedAt: at, expiresAt: at + maxMs };
  const id = await insertSession(tx, { userId, hash: hashToken(secret), ...times, address, userAgent, ...provider });
  await insertAudit(tx, {
    actor: { userId, address, tokenId: null, sessionId: id, requestId },
    action: 'session.create',
    subject: `${userId}/${id}`,
    details: { by: provider?.issuer ?? 'sign-in link', ...(previous ? { replaces: previous.id } : {}) },
    at,
  });
  return { secret, maxAgeSeconds: Math.floor(maxMs / 1000) };
}

/** A use is stored at most once in this time, and ten times in the idle time. */
const useIntervalMs = 60_000;

/** Finds the session of a secret, and when it ends unless it is used again. Throws if it has ended, or its user is disabled. */
export async function requireSession(
  { db, idleMs, now }: Pick<SessionDeps, 'db' | 'idleMs' | 'now'>,
  hash: string,
  isUse: boolean,
): Promise<SessionRecord & { endsAt: number }> {
  const session = await findSessionByHash(db, hash);
  const at = now();
  const hasEnded =
    session === undefined || session.revokedAt !== null || session.expiresAt <= at || session.lastUsedAt + idleMs <= at;
  if (hasEnded) {
    const cause = new RefusedAccess('a session that has ended', session?.userId);
    throw new BursarError('session_ended', 'Your session has ended. Sign in again at /sign-in/.', { cause });
  }
  if (session.userDisabledAt !== null) throw userDisabled(session.userId);
  // Not awaited, and repeated by the next request if it fails: a request must not fail because of it.
  if (isUse && at - session.lastUsedAt >= Math.min(useIntervalMs, idleMs / 10))
    void storeSessionUse(db, session.id, at).catch(() => undefined);
  return { ...session, endsAt: Math.min(session.expiresAt, (isUse ? at : session.lastUsedAt) + idleMs) };
}

export interface SessionServiceDeps extends SessionDeps {
  /** Called after a commit that takes rights from a user. */
  publishAccess(userId: string): void;
}

export type SessionService = ReturnType<typeof createSessionService>;

/** The sessions that users see and end. */
export function createSessionService(deps: SessionServiceDeps) {
  const { db, idleMs, now, publishAccess } = deps;

  const listOf = (userId: string) => listSessions(db, userId, { now: now(), idleMs });

  /** Ends sessions of a user. Ending one that has ended changes nothing. */
  async function end(actor: Actor, sessions: readonly SessionRecord[]): Promise<void> {
    for (const { id, userId } of sessions)
      await inTransaction(db, async (tx) => {
        if (!(await revokeSession(tx, id, now()))) return;
        await insertAudit(tx, { actor, action: 'session.revoke', subject: `${userId}/${id}`, details: {}, at: now() });
      });
    for (const userId of new Set(sessions.map((session) => session.userId))) publishAccess(userId);
  }

  return {
    async list(userId: string, currentId: number | null = null) {
      return (await listOf(userId)).map((session) => publicSession(session, deps, currentId));
    },

    async end(caller: Caller, id: number): Promise<Static<typeof SessionSchema>> {
      const session = (await listOf(caller.userId)).find((candidate) => candidate.id === id);
      if (session === undefined)
        throw new BursarError('session_unknown', 'You have no such session. GET /me/sessions/ lists yours.');
      await end(caller, [session]);
      return publicSession(session, deps, caller.sessionId);
    },

    /** Ends all sessions of a user, except that of the actor. */
    async endOthers(actor: Actor, userId: string) {
      const sessions = (await listOf(userId)).filter(({ id }) => id !== actor.sessionId);
      await end(actor, sessions);
      return sessions.map((session) => publicSession(session, deps, null));
    },
  };
}

function publicSession(session: SessionRecord, { idleMs }: SessionDeps, currentId: number | null) {
  const { id, createdAt, lastUsedAt, expiresAt, address, userAgent, issuer } = session;
  return {
    id,
    created_at: toIsoTime(createdAt),
    last_used_at: toIsoTime(lastUsedAt),
    expires_at: toIsoTime(Math.min(expiresAt, lastUsedAt + idleMs)),
    address,
    user_agent: userAgent,
    issuer,
    current: id === currentId,
  } satisfies Static<typeof SessionSchema>;
}
