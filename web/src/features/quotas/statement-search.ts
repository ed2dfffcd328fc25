import { textOf } from '../../ui/search-params.ts';

/** The filters of a statement, in the query of the page. */
export interface StatementSearch {
  resource?: 'space' | undefined;
  from?: string | undefined;
  to?: string | undefined;
  kind?: string | undefined;
}

export function validateStatementSearch(query: Record<string, unknown>): StatementSearch {
  return {
    resource: query.resource === 'space' ? 'space' : undefined,
    from: textOf(query.from),
    to: textOf(query.to),
    kind: textOf(query.kind),
  };
}
