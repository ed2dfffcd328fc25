import { BursarError } from '../../domain/errors.ts';
import { msPerMinute } from '../../domain/units.ts';
import type { Db } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { type AuditActor, insertAudit } from '../../store/identity/audit.ts';
import { findSignInCode, insertSignInCode, takeSignInCode } from '../../store/identity/sign-ins.ts';
import { requireEnabledUser } from './access.ts';
import { type SessionDeps, type StartedSession, startSession, type Visitor } from './sessions.ts';
import { createSecret, hashToken } from './tokens.ts';

const signInCodeMs = 10 * msPerMinute;

/** Creates a code with which an existing user can start a session once, and returns the path of its link. */
export async function createSignInLink(db: Db, userId: string, actor: AuditActor, now: number): Promise<string> {
  const code = createSecret('bursar_code_');
  await inTransaction(db, async (tx) => {
    await requireEnabledUser(tx, userId);
    await insertSignInCode(tx, { hash: hashToken(code), userId, createdAt: now, expiresAt: now + signInCodeMs });
    await insertAudit(tx, { actor, action: 'sign_in_link.create', subject: userId, details: {}, at: now });
  });
  return `/sign-in/?code=${code}`;
}

/** The user of a code. Does not use up the code. */
export async function readSignInLink({ db, now }: SessionDeps, code: string): Promise<string> {
  const userId = await findSignInCode(db, hashToken(code), now());
  if (userId === undefined) throw invalidCode();
  return userId;
}

/** Uses up the code. If two requests do so at the same time, one of them fails. */
export async function signInByLink(deps: SessionDeps, code: string, visitor: Visitor): Promise<StartedSession> {
  return await inTransaction(deps.db, async (tx) => {
    const userId = await takeSignInCode(tx, hashToken(code), deps.now());
    if (userId === undefined) throw invalidCode();
    return await startSession(tx, deps, visitor, { userId, provider: null });
  });
}

function invalidCode(): BursarError {
  const message = 'This sign-in link has been used, has expired, or is incomplete. Ask for a new one.';
  return new BursarError('sign_in_failed', message);
}
