export interface CachedValueOptions {
  /** After this time the value is loaded again. */
  maxAgeMs: number;
  /** After a failure the next attempt is made only after this time. */
  retryMs: number;
  now(): number;
}

/**
 * A value that is loaded on first use. While it cannot be loaded again, the old one stays in use. Requests that need it at
 * the same time share one attempt.
 */
export function createCachedValue<T extends object>(load: () => Promise<T>, options: CachedValueOptions) {
  const { maxAgeMs, retryMs, now } = options;
  let value: T | undefined;
  let failure: unknown;
  let loadedAt = Number.NEGATIVE_INFINITY;
  let triedAt = Number.NEGATIVE_INFINITY;
  let attempt: Promise<void> | undefined;

  async function tryToLoad(): Promise<void> {
    attempt ??= load()
      .then(
        (loaded) => {
          value = loaded;
          failure = undefined;
          loadedAt = now();
        },
        (error) => {
          failure = error;
        },
      )
      .finally(() => {
        triedAt = now();
        attempt = undefined;
      });
    await attempt;
  }

  return {
    /** Throws if the value was never loaded and cannot be loaded now. */
    async get(): Promise<T> {
      const isCurrent = value !== undefined && now() - loadedAt < maxAgeMs;
      if (!isCurrent && (failure === undefined || now() - triedAt >= retryMs)) await tryToLoad();
      if (value === undefined) throw failure;
      return value;
    },

    /** Loads the value again, unless that was tried within `minIntervalMs`. Throws if the last attempt failed. */
    async reload(minIntervalMs: number): Promise<T> {
      if (now() - triedAt >= minIntervalMs) await tryToLoad();
      if (failure !== undefined || value === undefined) throw failure;
      return value;
    },
  };
}
