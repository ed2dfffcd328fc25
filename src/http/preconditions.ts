import type { IncomingHttpHeaders } from 'node:http';

/** What tells one state of something from another. A weak tag (`W/…`) does not vouch for every byte. */
export interface Validators {
  etag: string;
  modifiedAt: number;
}

export const httpDate = (ms: number) => new Date(ms).toUTCString();

/** Whether the caller has it already: 304 (RFC 9110, 13.1.2 and 13.1.3). */
export function isUnchanged(headers: IncomingHttpHeaders, { etag, modifiedAt }: Validators): boolean {
  const tags = headers['if-none-match'];
  if (tags !== undefined) {
    const opaque = (tag: string) => tag.replace(/^W\//, '');
    return tags.trim() === '*' || (tags.match(/(?:W\/)?"[^"]*"/g) ?? []).some((tag) => opaque(tag) === opaque(etag));
  }
  const since = Date.parse(headers['if-modified-since'] ?? '');
  return Math.floor(modifiedAt / 1000) * 1000 <= since;
}

/** Whether the part that the caller has and the part that is asked for are of the same bytes (RFC 9110, 13.1.5). */
export function mayContinue(ifRange: string | undefined, { etag, modifiedAt }: Validators): boolean {
  if (ifRange === undefined) return true;
  if (etag.startsWith('W/')) return false;
  return ifRange.startsWith('"') ? ifRange === etag : ifRange === httpDate(modifiedAt);
}
