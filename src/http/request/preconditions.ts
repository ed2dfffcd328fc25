import type { IncomingHttpHeaders } from 'node:http';

/** Identify one version of a resource. A weak entity tag (`W/…`) does not guarantee identical bytes. */
export interface Validators {
  etag: string;
  modifiedAt: number;
}

export const httpDate = (ms: number) => new Date(ms).toUTCString();

/** Whether the caller has this version, so that 304 is the response (RFC 9110, 13.1.2 and 13.1.3). */
export function isUnchanged(headers: IncomingHttpHeaders, { etag, modifiedAt }: Validators): boolean {
  if (headers['if-none-match'] !== undefined) return matchesEtag(etag, headers['if-none-match']);
  const modifiedSince = Date.parse(headers['if-modified-since'] ?? '');
  return Math.floor(modifiedAt / 1000) * 1000 <= modifiedSince;
}

/** Whether the requested range belongs to the version that the caller has a part of (RFC 9110, 13.1.5). */
export function isRangeValid(ifRange: string | undefined, { etag, modifiedAt }: Validators): boolean {
  if (ifRange === undefined) return true;
  if (etag.startsWith('W/')) return false;
  return ifRange.startsWith('"') ? ifRange === etag : ifRange === httpDate(modifiedAt);
}

/** Weak comparison (RFC 9110, 8.8.3.2): ignores `W/`. `*` matches every entity tag. */
export function matchesEtag(etag: string, header: string | undefined): boolean {
  if (header === undefined) return false;
  if (header.trim() === '*') return true;
  const opaqueTag = etag.replace(/^W\//, '');
  return header.matchAll(/"[\x21\x23-\x7e\x80-\xff]*"/g).some(([candidate]) => candidate === opaqueTag);
}
