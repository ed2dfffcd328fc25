const latestMs = Date.UTC(9999, 11, 31);

/** A job can give its files any time; ours are those that a date can be made of. */
export function fileTime(ms: number): number {
  return Math.floor(Math.min(Math.max(ms, 0), latestMs));
}
