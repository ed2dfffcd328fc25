import pLimit, { type LimitFunction } from 'p-limit';

/**
 * Runs at most `concurrency` tasks of each user at a time, for tasks that may read much: many of one user at once would
 * delay the requests of everybody.
 */
export function createUserQueue(concurrency: number) {
  const limits = new Map<string, LimitFunction>();
  return async <T>(userId: string, task: () => Promise<T>): Promise<T> => {
    const limit = limits.get(userId) ?? pLimit(concurrency);
    limits.set(userId, limit);
    try {
      return await limit(task);
    } finally {
      if (limit.activeCount + limit.pendingCount === 0) limits.delete(userId);
    }
  };
}
