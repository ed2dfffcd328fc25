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
    .insertInto('signInAttempts')
    .values({ hash, issuer, state, nonce, codeVerifier, returnTo, expiresAt })
    .execute();
}

/** Returns the attempt and deletes it, so that it can be completed once. */
export async function takeSignInAttempt(db: Db, hash: string): Promise<SignInAttempt | undefined> {
  return await db
    .deleteFrom('signInAttempts')
    .where('hash', '=', hash)
    .returning(['issuer', 'state', 'nonce', 'codeVerifier', 'returnTo'])
    .returning('expiresAt')
    .executeTakeFirst();
}
