import pLimit, { type LimitFunction } from 'p-limit';

/**
 * Runs at most `concurrency` tasks with the same key, such as a user, at a time, for tasks that may read much: many of one user
 * at once would delay the requests of everybody.
 */
export function createUserQueue(concurrency: number) {
  const limits = new Map<string, LimitFunction>();
  return async <T>(key: string, task: () => Promise<T>): Promise<T> => {
    const limit = limits.get(key) ?? pLimit(concurrency);
    limits.set(key, limit);
    try {
      return await limit(task);
    } finally {
      if (limit.activeCount + limit.pendingCount === 0) limits.delete(key);
    }
  };
}
