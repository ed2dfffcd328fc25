/** What was used last, within so many bytes: when room is needed, what was not used for longest goes. */
export interface RecentlyUsed<T> {
  get(key: string): T | undefined;
  put(key: string, value: T): void;
}

/** About what an entry takes beside its key and value. */
const entryBytes = 500;

export function createRecentlyUsed<T>(mostBytes: number, bytesOf: (value: T) => number): RecentlyUsed<T> {
  // A Map lists its keys in the order in which they were put in: the first is the one that was not used for longest.
  const kept = new Map<string, { value: T; bytes: number }>();
  let bytes = 0;

  const remove = (key: string) => {
    bytes -= kept.get(key)?.bytes ?? 0;
    kept.delete(key);
  };
  return {
    get(key) {
      const entry = kept.get(key);
      if (entry === undefined) return undefined;
      kept.delete(key);
      kept.set(key, entry);
      return entry.value;
    },
    put(key, value) {
      remove(key);
      const entry = { value, bytes: entryBytes + key.length + bytesOf(value) };
      kept.set(key, entry);
      bytes += entry.bytes;
      for (const oldest of kept.keys()) {
        if (bytes <= mostBytes) break;
        remove(oldest);
      }
    },
  };
}
