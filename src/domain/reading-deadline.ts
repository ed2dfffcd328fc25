export interface ReaderProgress {
  /** Until when the bytes that the reader took before were enough. */
  deadline: number;
  now: number;
  /** The bytes that the reader has taken since. */
  bytes: number;
  bytesPerSecond: number;
  /** The longest pause that is allowed, however many bytes came before it. */
  maxPauseMs: number;
}

/**
 * Returns the time by which a reader must have taken more, to be as fast as the minimum rate. Bytes count for the time after
 * them, because even for a steady reader the operating system drains the socket in bursts: it fills its send buffer, and takes
 * nothing until a third of that is free again.
 */
export function extendDeadline({ deadline, now, bytes, bytesPerSecond, maxPauseMs }: ReaderProgress): number {
  return Math.min(now + maxPauseMs, Math.max(now, deadline) + (bytes / bytesPerSecond) * 1000);
}
