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

/** The bytes to send: all, a part, or none because the range is beyond the end. */
export type RangeResult =
  | { kind: 'whole' }
  | { kind: 'part'; start: number; length: number }
  | { kind: 'unsatisfiable' };

/**
 * Parses a Range header for a file of the given size (RFC 9110, 14.2). An invalid header is ignored, as the RFC requires.
 * So are multiple ranges, which are not supported.
 */
export function parseRange(header: string | undefined, size: number): RangeResult {
  const [, first = '', last = ''] = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? '') ?? [];
  if (first === '' && last === '') return { kind: 'whole' };
  if (first !== '' && last !== '' && Number(last) < Number(first)) return { kind: 'whole' };
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1);
  return start < end ? { kind: 'part', start, length: end - start } : { kind: 'unsatisfiable' };
}
