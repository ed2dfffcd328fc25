import { textOf } from '../../ui/search-params.ts';

export interface SubmitSearch {
  hpc?: string | undefined;
  project?: string | undefined;
  /** The path of the job whose request is the start: `hpc/project/job_id`. */
  from?: string | undefined;
}

export function validateSubmitSearch(query: Record<string, unknown>): SubmitSearch {
  return { hpc: textOf(query.hpc), project: textOf(query.project), from: textOf(query.from) };
}
