import { textOf } from '../../../ui/search-params.ts';

/** The filters of the usage, in the query of the page. */
export interface UsageSearch {
  hpc?: string | undefined;
  project?: string | undefined;
  user?: string | undefined;
}

export function validateUsageSearch(query: Record<string, unknown>): UsageSearch {
  return { hpc: textOf(query.hpc), project: textOf(query.project), user: textOf(query.user) };
}
