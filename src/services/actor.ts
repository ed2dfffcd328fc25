/** Who is calling, and by which token; the token itself is kept nowhere. */
export interface Caller extends Actor {
  tokenHash: string;
}

/** Who is calling, once their token has been checked. */
export interface Actor {
  userId: string;
  admin: boolean;
}
