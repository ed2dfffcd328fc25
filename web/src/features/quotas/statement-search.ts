import { dayOf, numberOf } from '../../ui/search-params.ts';
import { kindTexts, type Movement } from './movement-kinds.ts';

/** The filters of a statement, in the query of the page. */
export interface StatementSearch {
  resource?: 'space' | undefined;
  /** The first day, such as 2026-01-31, or `all`. Default: 90 days ago. */
  from?: string | undefined;
  /** The last day. Default: today. */
  to?: string | undefined;
  kind?: Movement['kind'] | undefined;
  page?: number | undefined;
}

const kinds = Object.keys(kindTexts) as Movement['kind'][];

export function validateStatementSearch(query: Record<string, unknown>): StatementSearch {
  const page = numberOf(query.page);
  return {
    resource: query.resource === 'space' ? 'space' : undefined,
    from: query.from === 'all' ? 'all' : dayOf(query.from),
    to: dayOf(query.to),
    kind: kinds.find((kind) => kind === query.kind),
    page: page !== undefined && Number.isInteger(page) && page > 1 ? page : undefined,
  };
}
