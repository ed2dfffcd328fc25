/** The bytes that an answer carries: all of them, a part, or none because there are none there. */
export type RangeResult =
  | { kind: 'whole' }
  | { kind: 'part'; start: number; length: number }
  | { kind: 'unsatisfiable' };

/**
 * What a Range header asks of so many bytes (RFC 9110, 14.2). What cannot be understood is ignored, as it says, and so
 * are several ranges at once, which nobody needs of a file.
 */
export function readRange(header: string | undefined, size: number): RangeResult {
  const [, first = '', last = ''] = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? '') ?? [];
  if (first === '' && last === '') return { kind: 'whole' };
  if (first !== '' && last !== '' && Number(last) < Number(first)) return { kind: 'whole' };
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1);
  return start < end ? { kind: 'part', start, length: end - start } : { kind: 'unsatisfiable' };
}
