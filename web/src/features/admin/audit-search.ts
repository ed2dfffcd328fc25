import { numberOf, textOf } from '../../ui/search-params.ts';

/** The filters of the audit trail, in the query of the page. */
export interface AuditSearch {
  actor?: string | undefined;
  act?: string | undefined;
  subject?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
  /** The page begins before this record. */
  before?: number | undefined;
}

export function validateAuditSearch(query: Record<string, unknown>): AuditSearch {
  return {
    actor: textOf(query.actor),
    act: textOf(query.act),
    subject: textOf(query.subject),
    from: textOf(query.from),
    to: textOf(query.to),
    before: numberOf(query.before),
  };
}
