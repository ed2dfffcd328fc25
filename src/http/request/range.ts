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
