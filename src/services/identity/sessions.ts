import type { Static } from 'typebox';
import type { SessionSchema } from '../../contract/account.ts';
import { toIsoTime } from '../../contract/fields.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { insertAudit } from '../../store/identity/audit.ts';
import * as store from '../../store/identity/sessions.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { requireEnabledUser } from './access.ts';
import type { Actor, Caller } from './actor.ts';
import { RefusedAccess, userDisabled } from './refused-access.ts';
import { createSecret, hashToken } from './tokens.ts';

export type SessionDeps = Pick<ServiceDeps, 'db' | 'now' | 'sessions'>;
type EndSessionDeps = SessionDeps & Pick<ServiceDeps, 'accessTopic'>;

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
  { sessions: { maxMs }, now }: SessionDeps,
  visitor: Visitor,
  { userId, provider }: { userId: string; provider: { issuer: string; idToken: string | null } | null },
): Promise<StartedSession> {
  await requireEnabledUser(tx, userId);
  const at = now();
  const previous = visitor.session && (await store.findSessionByHash(tx, hashToken(visitor.session)));
  if (previous) await store.revokeSession(tx, previous.id, at);
  const secret = createSecret('bursar_session_');
  const { address, requestId } = visitor;
  const userAgent = visitor.userAgent.slice(0, maxUserAgentLength);
  const times = { createdAt: at, lastUsedAt: at, expiresAt: at + maxMs };
  const id = await store.insertSession(tx, {
    userId,
    hash: hashToken(secret),
    ...times,
    address,
    userAgent,
    ...provider,
  });
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
  { db, sessions: { idleMs }, now }: SessionDeps,
  hash: string,
  isUse: boolean,
): Promise<store.SessionRecord & { endsAt: number }> {
  const session = await store.findSessionByHash(db, hash);
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
    void store.storeSessionUse(db, session.id, at).catch(() => undefined);
  return { ...session, endsAt: Math.min(session.expiresAt, (isUse ? at : session.lastUsedAt) + idleMs) };
}

type Session = Static<typeof SessionSchema>;

const findSessions = ({ db, now, sessions }: SessionDeps, userId: string) =>
  store.listSessions(db, userId, { now: now(), idleMs: sessions.idleMs });

export async function listSessions(deps: SessionDeps, userId: string, currentId: number | null): Promise<Session[]> {
  return (await findSessions(deps, userId)).map((session) => publicSession(session, deps, currentId));
}

export async function endSession(deps: EndSessionDeps, caller: Caller, id: number): Promise<Session> {
  const session = (await findSessions(deps, caller.userId)).find((candidate) => candidate.id === id);
  if (session === undefined)
    throw new BursarError('session_unknown', 'You have no such session. GET /me/sessions/ lists yours.');
  await endSessions(deps, caller, caller.userId, [session]);
  return publicSession(session, deps, caller.sessionId);
}

/** Ends all sessions of a user, except that of the actor. */
export async function endOtherSessions(deps: EndSessionDeps, actor: Actor, userId: string): Promise<Session[]> {
  const sessions = (await findSessions(deps, userId)).filter(({ id }) => id !== actor.sessionId);
  await endSessions(deps, actor, userId, sessions);
  return sessions.map((session) => publicSession(session, deps, null));
}

/** Ends sessions of a user. Ending one that has ended changes nothing. */
async function endSessions(
  { db, now, accessTopic }: EndSessionDeps,
  actor: Actor,
  userId: string,
  sessions: readonly store.SessionRecord[],
): Promise<void> {
  for (const { id } of sessions)
    await inTransaction(db, async (tx) => {
      if (!(await store.revokeSession(tx, id, now()))) return;
      await insertAudit(tx, { actor, action: 'session.revoke', subject: `${userId}/${id}`, details: {}, at: now() });
    });
  accessTopic.publish(userId);
}

function publicSession(session: store.SessionRecord, { sessions }: SessionDeps, currentId: number | null): Session {
  const { id, createdAt, lastUsedAt, expiresAt, address, userAgent, issuer } = session;
  return {
    id,
    created_at: toIsoTime(createdAt),
    last_used_at: toIsoTime(lastUsedAt),
    expires_at: toIsoTime(Math.min(expiresAt, lastUsedAt + sessions.idleMs)),
    address,
    user_agent: userAgent,
    issuer,
    current: id === currentId,
  };
}
