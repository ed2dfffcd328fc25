import { setTimeout as sleep } from 'node:timers/promises';
import type { EndCause } from './job-end.ts';

export interface WatchOptions {
  runtimeSeconds: number;
  memoryMb: number;
  readResidentKib(): Promise<number>;
  isCancellationRequested(): Promise<boolean>;
  /** Called at every check for each exceeded limit and for a cancellation. */
  onCause(cause: EndCause): void;
  signal: AbortSignal;
}

const intervalMs = 500;
/** Pauses last this many times as long as a check, so that checks use at most 1/50 of a core on a slow machine. */
const pauseFactor = 50;
/**
 * On a busy machine a check may wait for a CPU. The pause is then bounded, because a cancellation whose signal was lost is found
 * by a check: the engine kills a supervisor that does not end its job within 15 s.
 */
const maxPauseMs = 5000;

/**
 * Checks the limits of a running job, and whether it was cancelled, periodically until `signal` aborts. The first check is
 * after a pause: a check takes longer than many a short job.
 */
export async function watchLimits(options: WatchOptions): Promise<void> {
  const deadline = performance.now() + options.runtimeSeconds * 1000;
  let nextPauseMs = intervalMs;
  for (;;) {
    const remainingMs = deadline - performance.now();
    // A time limit may exceed 24 days, the maximum of a timer; the pause never does.
    const pauseMs = remainingMs > 0 ? Math.min(nextPauseMs, remainingMs) : nextPauseMs;
    await sleep(Math.max(1, pauseMs), undefined, { signal: options.signal }).catch(() => {});
    if (options.signal.aborted) return;
    const checkedAt = performance.now();
    if (checkedAt >= deadline) options.onCause({ kind: 'time_limit_reached' });
    if (await options.isCancellationRequested()) options.onCause({ kind: 'stop_requested', byOwner: true });
    // A failed read is no reason to end a job.
    const residentKib = await options.readResidentKib().catch(() => 0);
    if (residentKib * 1024 > options.memoryMb * 1e6) options.onCause({ kind: 'memory_exceeded' });
    nextPauseMs = Math.min(maxPauseMs, Math.max(intervalMs, (performance.now() - checkedAt) * pauseFactor));
  }
}
