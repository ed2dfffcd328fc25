import { dayOf, numberOf, textOf } from '../../../ui/search-params.ts';

/** The filters of the audit trail, in the query of the page. */
export interface AuditSearch {
  actor?: string | undefined;
  action?: string | undefined;
  subject?: string | undefined;
  /** Days, in local time, both included. */
  from?: string | undefined;
  to?: string | undefined;
  /** The page begins before this record. */
  before?: number | undefined;
  /** The `before` of each newer page, joined by `.`; 0 is the newest page. The server knows no way back. */
  newer?: string | undefined;
}

export function validateAuditSearch(query: Record<string, unknown>): AuditSearch {
  return {
    actor: textOf(query.actor),
    action: textOf(query.action),
    subject: textOf(query.subject),
    from: dayOf(query.from),
    to: dayOf(query.to),
    before: numberOf(query.before),
    newer: textOf(query.newer),
  };
}

export function olderPage(search: AuditSearch, lastId: number): AuditSearch {
  const newer = [...(search.newer?.split('.') ?? []), search.before ?? 0].join('.');
  return { ...search, before: lastId, newer };
}

export function newerPage(search: AuditSearch): AuditSearch {
  const starts = search.newer?.split('.') ?? [];
  const before = Number(starts.pop() ?? 0);
  return { ...search, before: before > 0 ? before : undefined, newer: starts.join('.') || undefined };
}
