import { setTimeout as sleep } from 'node:timers/promises';
import type { Cause } from './ending.ts';

export interface WatchOptions {
  runtimeSeconds: number;
  memoryMb: number;
  /** Memory in use now, in KiB. */
  residentKb(): Promise<number>;
  isCancelled(): Promise<boolean>;
  /** Called whenever a limit is found to be passed. */
  onCause(cause: Cause): void;
  until: AbortSignal;
}

const intervalMs = 500;
/** Looking takes at most one part in so many of a processor, however many processes the machine has. */
const leastRest = 50;

/** Looks again and again at what a running job uses, until told to stop. */
export async function watchLimits(options: WatchOptions): Promise<void> {
  const deadline = performance.now() + options.runtimeSeconds * 1000;
  while (!options.until.aborted) {
    const lookedAt = performance.now();
    if (lookedAt >= deadline) options.onCause({ kind: 'time_is_up' });
    if (await options.isCancelled()) options.onCause({ kind: 'cancelled', byOwner: true });
    // Not being able to look is no reason to end a job.
    const residentKb = await options.residentKb().catch(() => 0);
    if (residentKb * 1024 > options.memoryMb * 1e6) options.onCause({ kind: 'memory_exceeded' });
    const rest = Math.max(intervalMs, (performance.now() - lookedAt) * leastRest);
    // A timer cannot wait for longer than 24 days; a time limit can be longer.
    const pauseMs = lookedAt < deadline ? Math.min(rest, deadline - performance.now()) : rest;
    await sleep(Math.max(1, pauseMs), undefined, { signal: options.until }).catch(() => {});
  }
}
