import type { TokenRecord } from '../../store/identity/tokens.ts';

export type FindToken = (hash: string) => Promise<TokenRecord | undefined>;

export interface RecentTokens {
  find: FindToken;
  /** A token is not what it was. */
  forget(id: number): void;
}

const keepMs = 2000;
const mostKept = 10_000;

/**
 * Tokens that were asked for within the last two seconds, so that a database at the other end of a line is not asked for
 * each request. Only those that were good are kept: a new one is good at once, and one that is revoked is forgotten when
 * word of it comes, or two seconds later.
 */
export function rememberTokens(find: FindToken, now: () => number): RecentTokens {
  const kept = new Map<string, { record: TokenRecord; until: number }>();
  return {
    async find(hash) {
      const known = kept.get(hash);
      if (known !== undefined && known.until > now()) return known.record;
      kept.delete(hash);
      const record = await find(hash);
      if (record === undefined || record.revokedAt !== null) return record;
      if (kept.size >= mostKept) kept.clear();
      kept.set(hash, { record, until: now() + keepMs });
      return record;
    },
    forget(id) {
      for (const [hash, { record }] of kept) if (record.id === id) kept.delete(hash);
    },
  };
}
