/** The user behind a request, after the token was checked. */
export interface Actor {
  userId: string;
  admin: boolean;
}

/** The actor with the token that was used. The token itself is not stored. */
export interface Caller extends Actor {
  tokenHash: string;
  /** Expiry of the token in epoch milliseconds. 0 for a token of an OpenID provider, which is checked every time. */
  validUntil: number;
}
