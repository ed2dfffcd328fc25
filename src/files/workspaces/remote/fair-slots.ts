/** Slots for commands that run at the same time, shared between users. */
export interface FairSlots {
  /** Waits for a slot, and returns the function that frees it. Rejects when the signal is aborted first. */
  take(user: string, signal: AbortSignal): Promise<() => void>;
  /** Whether somebody waits for a slot who could use it. */
  isContended(): boolean;
}

interface Waiter {
  user: string;
  grant(): void;
}

/**
 * A free slot goes to the waiting user who has the fewest, and of several to the one who has waited longest. No user has
 * more than `perUser`, so that one user alone cannot take all of them.
 */
export function createFairSlots({ total, perUser }: { total: number; perUser: number }): FairSlots {
  const taken = new Map<string, number>();
  const waiters = new Set<Waiter>();
  let free = total;
  const takenBy = (user: string) => taken.get(user) ?? 0;

  function nextWaiter(): Waiter | undefined {
    let next: Waiter | undefined;
    for (const waiter of waiters) {
      if (takenBy(waiter.user) >= perUser) continue;
      if (next === undefined || takenBy(waiter.user) < takenBy(next.user)) next = waiter;
    }
    return next;
  }

  function grantFreeSlots(): void {
    for (let waiter = nextWaiter(); free > 0 && waiter !== undefined; waiter = nextWaiter()) {
      waiters.delete(waiter);
      free -= 1;
      taken.set(waiter.user, takenBy(waiter.user) + 1);
      waiter.grant();
    }
  }

  function freeSlot(user: string): void {
    free += 1;
    const rest = takenBy(user) - 1;
    if (rest > 0) taken.set(user, rest);
    else taken.delete(user);
    grantFreeSlots();
  }

  return {
    isContended: () => nextWaiter() !== undefined,

    async take(user, signal) {
      signal.throwIfAborted();
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const waiter = { user, grant: resolve };
      const onAbort = () => {
        // Once the slot is granted, the caller frees it.
        if (waiters.delete(waiter)) reject(signal.reason);
      };
      signal.addEventListener('abort', onAbort);
      waiters.add(waiter);
      grantFreeSlots();
      try {
        await promise;
      } finally {
        signal.removeEventListener('abort', onAbort);
      }
      let isFree = false;
      return () => {
        if (!isFree) freeSlot(user);
        isFree = true;
      };
    },
  };
}
