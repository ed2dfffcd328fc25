import { textOf } from '../../ui/search-params.ts';

/** The filters of a list of jobs, in the query of the page. */
export interface JobsSearch {
  search?: string | undefined;
  hpc?: string | undefined;
  project?: string | undefined;
  state?: 'active' | 'ended' | 'failed' | undefined;
  tag?: string | undefined;
  user?: string | undefined;
  /** The start of the page, from the server. */
  cursor?: string | undefined;
}

const states = ['active', 'ended', 'failed'] as const;

export function validateJobsSearch(query: Record<string, unknown>): JobsSearch {
  return {
    search: textOf(query.search),
    hpc: textOf(query.hpc),
    project: textOf(query.project),
    state: states.find((state) => state === query.state),
    tag: textOf(query.tag),
    user: textOf(query.user),
    cursor: textOf(query.cursor),
  };
}
