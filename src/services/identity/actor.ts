/** Who is calling, and by which token; the token itself is kept nowhere. */
export interface Caller extends Actor {
  tokenHash: string;
  /** Until when, in epoch milliseconds, this is so unless the books say otherwise; 0 for one that others vouch for. */
  goodUntil: number;
}

/** Who is calling, once their token has been checked. */
export interface Actor {
  userId: string;
  admin: boolean;
}
