/**
 * Milliseconds since the boot of this machine, without times of suspension. All processes of the machine have the same
 * value, and a change of the wall clock does not affect it. Supervisors measure the time limits of jobs by the same clock.
 */
export function monotonicNowMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
