/** The user behind a request, after the token was checked. */
export interface Actor {
  userId: string;
  admin: boolean;
}

/** The actor with the token that was used. The token itself is not stored. */
export interface Caller extends Actor {
  tokenHash: string;
  /** When the token expires, in epoch milliseconds. 0 if an OpenID provider issued it: then it is checked every time. */
  validUntil: number;
}
