import { numberOf, textOf } from '../../ui/search-params.ts';

/** The view of a job, in the query of the page. */
export interface JobSearch {
  tab?: 'log' | 'files' | undefined;
  stream?: 'stderr' | undefined;
  /** The line of the log that is marked. */
  line?: number | undefined;
  /** The file that is shown. */
  file?: string | undefined;
  /** The job is another user's: it is read by the paths of administrators. */
  admin?: true | undefined;
}

const tabs = ['log', 'files'] as const;

export function validateJobSearch(query: Record<string, unknown>): JobSearch {
  return {
    tab: tabs.find((tab) => tab === query.tab),
    stream: query.stream === 'stderr' ? 'stderr' : undefined,
    line: numberOf(query.line),
    file: textOf(query.file),
    admin: query.admin === true ? true : undefined,
  };
}
