import type { FastifyRequest } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import type { Caller } from '../../services/identity/actor.ts';
import type { Authenticate } from './authentication.ts';
import { type Browser, formTokenOf } from './browser.ts';

export interface SignedIn {
  caller: Caller & { sessionId: number };
  /** The secret of the session. */
  session: string;
  /** For the forms of the page. */
  formToken: string;
}

/** The user who is signed in in this browser, or null. For pages, which need no token. */
export async function findSignedIn(
  request: FastifyRequest,
  { browser, authenticate }: { browser: Browser; authenticate: Authenticate },
): Promise<SignedIn | null> {
  const session = browser.cookieOf(request, 'session');
  if (session === undefined) return null;
  const caller = await authenticate(request).catch((error) => {
    // A disabled user must not keep others from signing in with the same browser.
    if (error instanceof BursarError && ['session_ended', 'user_disabled'].includes(error.code)) return null;
    throw error;
  });
  // The request has an Authorization header too.
  if (caller === null || caller.sessionId === null) return null;
  // For the access log and the audit trail.
  request.caller = caller;
  return { caller: { ...caller, sessionId: caller.sessionId }, session, formToken: formTokenOf(session) };
}
