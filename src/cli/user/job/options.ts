import type { JobOwner } from './find-job.ts';

/** The options that all commands about one job have. */
export interface JobOptions {
  job: string;
  /** Set by the commands of `bursar admin job`. */
  owner?: JobOwner;
}
