import { ApiError, Bursar } from '@bursar/client';

/** Uses the cookie of the session. Queries repeat requests by themselves, so that the page can say that it is offline. */
export const bursar = new Bursar({ retries: 0 });

const signedOutCodes = ['session_ended', 'token_missing', 'token_invalid', 'user_disabled'];

/** Whether the user must sign in (again). */
export function isSignedOut(error: unknown): boolean {
  return error instanceof ApiError && signedOutCodes.includes(error.code);
}

/** Whether a repetition may help: no connection, or a server that is starting. */
export function isTransient(error: unknown): boolean {
  return !(error instanceof ApiError) || error.status >= 502 || error.status === 429;
}
