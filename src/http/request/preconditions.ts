import type { IncomingHttpHeaders } from 'node:http';

/** What tells one state of something from another. A weak tag (`W/…`) does not vouch for every byte. */
export interface Validators {
  etag: string;
  modifiedAt: number;
}

export const httpDate = (ms: number) => new Date(ms).toUTCString();

/** Whether the caller has it already: 304 (RFC 9110, 13.1.2 and 13.1.3). */
export function isUnchanged(headers: IncomingHttpHeaders, { etag, modifiedAt }: Validators): boolean {
  if (headers['if-none-match'] !== undefined) return matchesEtag(etag, headers['if-none-match']);
  const since = Date.parse(headers['if-modified-since'] ?? '');
  return Math.floor(modifiedAt / 1000) * 1000 <= since;
}

/** Whether the part that the caller has and the part that is asked for are of the same bytes (RFC 9110, 13.1.5). */
export function rangeStillValid(ifRange: string | undefined, { etag, modifiedAt }: Validators): boolean {
  if (ifRange === undefined) return true;
  if (etag.startsWith('W/')) return false;
  return ifRange.startsWith('"') ? ifRange === etag : ifRange === httpDate(modifiedAt);
}

/** Tags are compared as RFC 9110 asks for reading: a weak one (`W/`) will do, and `*` stands for any. */
export function matchesEtag(tag: string, header: string | undefined): boolean {
  if (header === undefined) return false;
  if (header.trim() === '*') return true;
  const opaque = tag.replace(/^W\//, '');
  return header.matchAll(/"[\x21\x23-\x7e\x80-\xff]*"/g).some(([known]) => known === opaque);
}
