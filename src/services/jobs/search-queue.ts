import pLimit, { type LimitFunction } from 'p-limit';

/**
 * Runs the searches of each user one after another. A search may read all jobs of the user, and SQLite reads synchronously: many
 * searches at once would delay the requests of everybody.
 */
export function createSearchQueue() {
  const limits = new Map<string, LimitFunction>();
  return async <T>(userId: string, search: () => Promise<T>): Promise<T> => {
    const limit = limits.get(userId) ?? pLimit(1);
    limits.set(userId, limit);
    try {
      return await limit(search);
    } finally {
      if (limit.activeCount + limit.pendingCount === 0) limits.delete(userId);
    }
  };
}
