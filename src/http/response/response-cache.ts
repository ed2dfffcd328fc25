import { createRecentlyUsed, type RecentlyUsed } from '../../services/recently-used.ts';

export interface CachedResponse {
  version: string;
  /** Its entity tag. */
  tag: string;
  /** Null for one that is too long to be kept: of that only the version is known. */
  body: Buffer | null;
  /** The `Link` to the next page, if there is one. */
  link: string | null;
}

/** The last answer to each request, as long as there is room for it. Whether it is still right, its version tells. */
export type ResponseCache = RecentlyUsed<CachedResponse>;

/** Of a body that would take more than an eighth of the room only the version is kept. */
export function createResponseCache(mostBytes: number): ResponseCache {
  const kept = createRecentlyUsed<CachedResponse>(mostBytes, ({ body }) => body?.length ?? 0);
  const isLong = ({ body }: CachedResponse) => body !== null && body.length > mostBytes / 8;
  return {
    get: kept.get,
    put: (request, answer) => kept.put(request, isLong(answer) ? { ...answer, body: null } : answer),
  };
}
