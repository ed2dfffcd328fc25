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

/** The slots that are taken with one key, and those who wait for one, first come first served. */
interface Share {
  taken: number;
  waiters: Set<Waiter>;
}

interface Waiter {
  /** Earlier ones have a lower number. */
  number: number;
  grant(): void;
}

/** A free slot goes to the waiting key that has taken the fewest, and of several to the one that has waited longest. */
export function createSlots({
  total = Number.POSITIVE_INFINITY,
  perKey = Number.POSITIVE_INFINITY,
}: SlotLimits): Slots {
  const shares = new Map<string, Share>();
  let taken = 0;
  let waiting = 0;
  let waiterNumber = 0;

  function nextShare(): Share | undefined {
    let next: Share | undefined;
    for (const share of shares.values()) {
      if (share.waiters.size === 0 || share.taken >= perKey) continue;
      if (next === undefined || share.taken < next.taken || (share.taken === next.taken && waitsLonger(share, next)))
        next = share;
    }
    return next;
  }

  function takeNow(key: string, share: Share): () => void {
    share.taken += 1;
    taken += 1;
    let isFree = false;
    return () => {
      if (isFree) return;
      isFree = true;
      share.taken -= 1;
      taken -= 1;
      grantFreeSlots();
      removeIfUnused(key, share);
    };
  }

  function grantFreeSlots(): void {
    while (waiting > 0 && taken < total) {
      const [first] = nextShare()?.waiters ?? [];
      if (first === undefined) return;
      first.grant();
    }
  }

  function findShare(key: string): Share {
    let share = shares.get(key);
    if (share === undefined) {
      share = { taken: 0, waiters: new Set() };
      shares.set(key, share);
    }
    return share;
  }

  function removeIfUnused(key: string, share: Share): void {
    if (share.taken === 0 && share.waiters.size === 0) shares.delete(key);
  }

  function waitFor(key: string, signal: AbortSignal | undefined): Promise<() => void> {
    const share = findShare(key);
    return new Promise((resolve, reject) => {
      const stopWaiting = () => {
        share.waiters.delete(waiter);
        waiting -= 1;
        signal?.removeEventListener('abort', onAbort);
      };
      const onAbort = () => {
        stopWaiting();
        removeIfUnused(key, share);
        reject(signal?.reason);
      };
      const waiter: Waiter = {
        number: waiterNumber++,
        grant() {
          stopWaiting();
          resolve(takeNow(key, share));
        },
      };
      share.waiters.add(waiter);
      waiting += 1;
      signal?.addEventListener('abort', onAbort);
    });
  }

  function tryTake(key = ''): (() => void) | undefined {
    if (taken >= total || (shares.get(key)?.taken ?? 0) >= perKey) return undefined;
    return takeNow(key, findShare(key));
  }

  async function take({ key = '', signal }: SlotRequest = {}): Promise<() => void> {
    signal?.throwIfAborted();
    return tryTake(key) ?? (await waitFor(key, signal));
  }

  return {
    take,
    tryTake,
    async run(work, request) {
      const free = await take(request);
      try {
        return await work();
      } finally {
        free();
      }
    },
    countTaken: (key) => (key === undefined ? taken : (shares.get(key)?.taken ?? 0)),
    isContended: () => waiting > 0 && nextShare() !== undefined,
  };
}

const firstNumber = ({ waiters: [first] }: Share) => first?.number ?? 0;
const waitsLonger = (share: Share, other: Share) => firstNumber(share) < firstNumber(other);
