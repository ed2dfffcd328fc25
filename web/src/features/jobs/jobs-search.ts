import type { JobPageFilter } from '../../client/job-pages.ts';
import { textOf } from '../../ui/search-params.ts';

const states = ['active', 'ended', 'failed'] as const;

/** The filters of a list of jobs and the start of its page, in the query of the address. */
export function validateJobsSearch(query: Record<string, unknown>): JobPageFilter {
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
