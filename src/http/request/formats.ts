import { isTag, tagRule } from '../../domain/jobs/payload-fields.ts';

const isoTime = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

function isTime(text: string): boolean {
  if (!isoTime.test(text) || Number.isNaN(Date.parse(text))) return false;
  // Date.parse accepts the 31st of February and returns the 3rd of March.
  const day = text.slice(0, 10);
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

/** The id of the last job of a page, and whether the next page has the jobs after or before it. */
type CursorKind = 'after' | 'before';

/** Opaque to callers, so that its content can change. */
export const formatCursor = (kind: CursorKind, id: number) => Buffer.from(`${kind}:${id}`).toString('base64url');

export const cursorId = (cursor: string) => Number(Buffer.from(cursor, 'base64url').toString().split(':')[1]);

function isCursor(kind: CursorKind, text: string): boolean {
  const id = cursorId(text);
  return Number.isSafeInteger(id) && id >= 0 && formatCursor(kind, id) === text;
}

/** The formats of texts in requests, each with the rule that a message states. */
export const formats = {
  'date-time': {
    isValid: (text: string) => text.includes('T') && isTime(text),
    rule: 'must be a time, such as 2026-01-31T12:00:00Z',
  },
  'date-or-time': { isValid: isTime, rule: 'must be a time, such as 2026-01-31 or 2026-01-31T12:00:00Z' },
  tag: { isValid: isTag, rule: tagRule },
  'cursor-after': {
    isValid: (text: string) => isCursor('after', text),
    rule: 'must come from the Link header of the previous page',
  },
  'cursor-before': {
    isValid: (text: string) => isCursor('before', text),
    rule: 'must be `next` of the previous page',
  },
};
