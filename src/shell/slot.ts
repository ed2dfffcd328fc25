import type { LimitFunction } from 'p-limit';

export interface Slot {
  /** Resolves when the slot is taken. Slots are given out in the order of the requests. */
  taken: Promise<void>;
  /** Frees the slot. Must be called once, also by a caller that stopped waiting before the slot was taken. */
  free(): void;
}

/** Waits for a slot, and returns the function that frees it. Rejects when the signal is aborted first. */
export async function takeSlot(limit: LimitFunction, signal: AbortSignal): Promise<() => void> {
  const slot = requestSlot(limit);
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort);
  try {
    signal.throwIfAborted();
    await Promise.race([slot.taken, aborted]);
    return slot.free;
  } catch (error) {
    slot.free();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Requests one slot of a concurrency limit, for work that cannot be a single function call. */
export function requestSlot(limit: LimitFunction): Slot {
  const { promise: taken, resolve: take } = Promise.withResolvers<void>();
  const { promise: freed, resolve: free } = Promise.withResolvers<void>();
  void limit(() => {
    take();
    return freed;
  });
  return { taken, free };
}
