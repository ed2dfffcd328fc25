export interface SlotLimits {
  /** Maximum slots that are taken at the same time, in all and with the same key. Default: no limit. */
  total?: number;
  perKey?: number;
}

export interface SlotRequest {
  /** Who takes the slot, such as a user. */
  key?: string;
  /** Stops waiting. A slot that is taken already stays taken. */
  signal?: AbortSignal;
}

/** Limits what happens at the same time. */
export interface Slots {
  /** Waits for a slot, runs the work and frees the slot. Rejects when the signal is aborted while it waits. */
  run<T>(work: () => Promise<T>, request?: SlotRequest): Promise<T>;
  /** Waits for a slot, and returns the function that frees it, for work that is no single function call. */
  take(request?: SlotRequest): Promise<() => void>;
  /** Takes a slot without waiting. Returns the function that frees it, and undefined at a limit. */
  tryTake(key?: string): (() => void) | undefined;
  /** The slots that are taken with this key, or in all. */
  countTaken(key?: string): number;
  /** Whether somebody waits who is not at the limit of one key, and would use a free slot. */
  isContended(): boolean;
}

interface Waiter {
  key: string;
  grant(): void;
}

/**
 * Without `perKey`, slots are given out in the order of the requests. With it, a free slot goes to the waiting key that has
 * taken the fewest, and of several to the one that has waited longest.
 */
export function createSlots({
  total = Number.POSITIVE_INFINITY,
  perKey = Number.POSITIVE_INFINITY,
}: SlotLimits): Slots {
  const taken = new Map<string, number>();
  const waiters = new Set<Waiter>();
  let totalTaken = 0;
  const countTaken = (key?: string) => (key === undefined ? totalTaken : (taken.get(key) ?? 0));

  function nextWaiter(): Waiter | undefined {
    let next: Waiter | undefined;
    for (const waiter of waiters) {
      if (perKey === Number.POSITIVE_INFINITY) return waiter;
      if (countTaken(waiter.key) >= perKey) continue;
      if (next === undefined || countTaken(waiter.key) < countTaken(next.key)) next = waiter;
    }
    return next;
  }

  function count(key: string, change: 1 | -1): void {
    totalTaken += change;
    const ofKey = countTaken(key) + change;
    if (ofKey > 0) taken.set(key, ofKey);
    else taken.delete(key);
  }

  function takeNow(key: string): () => void {
    count(key, 1);
    let isFree = false;
    return () => {
      if (isFree) return;
      isFree = true;
      count(key, -1);
      if (totalTaken < total) nextWaiter()?.grant();
    };
  }

  const tryTake = (key = '') => (totalTaken >= total || countTaken(key) >= perKey ? undefined : takeNow(key));

  async function take({ key = '', signal }: SlotRequest = {}): Promise<() => void> {
    signal?.throwIfAborted();
    const free = tryTake(key);
    if (free !== undefined) return free;
    return await new Promise((resolve, reject) => {
      const onAbort = () => waiters.delete(waiter) && reject(signal?.reason);
      const grant = () => {
        waiters.delete(waiter);
        signal?.removeEventListener('abort', onAbort);
        resolve(takeNow(key));
      };
      const waiter: Waiter = { key, grant };
      waiters.add(waiter);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  return {
    take,
    tryTake,
    countTaken,
    async run(work, request) {
      const free = await take(request);
      try {
        return await work();
      } finally {
        free();
      }
    },
    isContended: () => nextWaiter() !== undefined,
  };
}
