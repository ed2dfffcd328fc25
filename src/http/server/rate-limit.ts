/** So many requests within a window; what was not used of it comes back evenly. */
export interface RatePolicy {
  /** As callers are told. */
  name: string;
  quota: number;
  windowMs: number;
}

export interface RateLimitState {
  allowed: boolean;
  /** The moment at which the whole quota is there again: all that need be kept of a caller. */
  fullAt: number;
  remaining: number;
  /** Until one more request is allowed; 0 while one is. */
  waitMs: number;
}

/** What one more request does to a quota that is whole again at `fullAt`. One that is refused costs nothing. */
export function consume({ quota, windowMs }: RatePolicy, fullAt: number, now: number): RateLimitState {
  const costMs = windowMs / quota;
  const spentMs = Math.max(0, fullAt - now);
  const allowed = spentMs + costMs <= windowMs;
  const afterMs = allowed ? spentMs + costMs : spentMs;
  const remaining = Math.floor((windowMs - afterMs) / costMs + 1e-9);
  return { allowed, fullAt: now + afterMs, remaining, waitMs: Math.max(0, afterMs + costMs - windowMs) };
}
