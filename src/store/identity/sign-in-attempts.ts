import type { Db } from '../database/handle.ts';

/** A browser that was sent to an OpenID provider, and what must match when it comes back. */
export interface SignInAttempt {
  issuer: string;
  state: string;
  nonce: string;
  codeVerifier: string;
  /** The local path to show after the sign-in. */
  returnTo: string;
  expiresAt: number;
}

export async function insertSignInAttempt(db: Db, hash: string, attempt: SignInAttempt): Promise<void> {
  const { issuer, state, nonce, codeVerifier, returnTo, expiresAt } = attempt;
  await db
    .insertInto('sign_in_attempts')
    .values({ hash, issuer, state, nonce, code_verifier: codeVerifier, return_to: returnTo, expires_at: expiresAt })
    .execute();
}

/** Returns the attempt and deletes it, so that it can be completed once. */
export async function takeSignInAttempt(db: Db, hash: string): Promise<SignInAttempt | undefined> {
  return await db
    .deleteFrom('sign_in_attempts')
    .where('hash', '=', hash)
    .returning(['issuer', 'state', 'nonce', 'code_verifier as codeVerifier', 'return_to as returnTo'])
    .returning('expires_at as expiresAt')
    .executeTakeFirst();
}
