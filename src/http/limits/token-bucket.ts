/** Allows `quota` requests within a window. The quota refills evenly. */
export interface RatePolicy {
  quota: number;
  windowMs: number;
}

export interface RateLimitState {
  allowed: boolean;
  /** The whole quota is available again at this time. Nothing else needs to be stored for a caller. */
  fullAt: number;
  remaining: number;
  /** Time until one more request is allowed; 0 if one is allowed now. */
  waitMs: number;
}

/** Counts one request against a quota that is full again at `fullAt`. A refused request costs nothing. */
export function consume({ quota, windowMs }: RatePolicy, fullAt: number, now: number): RateLimitState {
  const costMs = windowMs / quota;
  const usedMs = Math.max(0, fullAt - now);
  const allowed = usedMs + costMs <= windowMs;
  const afterMs = allowed ? usedMs + costMs : usedMs;
  const remaining = Math.floor((windowMs - afterMs) / costMs + 1e-9);
  return { allowed, fullAt: now + afterMs, remaining, waitMs: Math.max(0, afterMs + costMs - windowMs) };
}
