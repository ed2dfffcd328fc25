import { createSlots } from '../../domain/slots.ts';
import { createInputCheck, type InputCheckOptions } from '../../files/zip/check-input.ts';
import { createAbandonedClaims, type IdempotentRequest } from '../idempotency.ts';
import type { Owner, PathScope } from '../scope.ts';
import { type CancelJobDeps, cancelJob } from './cancel-job.ts';
import { type DeleteJobDeps, deleteJob } from './delete-job.ts';
import type { JobAction } from './find-job.ts';
import { type JobSummaryQuery, listJobSummaries } from './job-summaries.ts';
import { type JobListQuery, listJobs, readJob } from './read-jobs.ts';
import { type Submission, type SubmissionDeps, submitJob } from './submit-job.ts';
import { readTimeline } from './timeline.ts';

export interface JobServiceDeps
  extends Omit<SubmissionDeps, 'checkInput' | 'abandonedClaims'>,
    InputCheckOptions,
    CancelJobDeps,
    DeleteJobDeps {}

export type JobService = ReturnType<typeof createJobService>;

/** Everything that users do with jobs, except reading their files and logs. */
export function createJobService(deps: JobServiceDeps) {
  const { db, systems, userTopic } = deps;
  const submissionDeps = { ...deps, checkInput: createInputCheck(deps), abandonedClaims: createAbandonedClaims() };
  /** By user: searches may read much, and many of one user at once would delay the requests of everybody. */
  const searches = createSlots({ perKey: 1 });
  return {
    list: (owner: Owner, scope: PathScope, query: JobListQuery) => listJobs({ db, systems }, owner, scope, query),
    /** `caller` is the user who reads them; `owner` is undefined for the jobs of all users. */
    listSummaries(caller: string, owner: Owner, scope: PathScope, query: JobSummaryQuery, signal: AbortSignal) {
      const list = () => listJobSummaries({ db, systems }, owner, scope, query, signal);
      const mayReadAllJobs = query.search !== undefined || query.jobIdPrefix !== undefined;
      return mayReadAllJobs ? searches.run(list, { key: caller }) : list();
    },
    read: (owner: Owner, project: Required<PathScope>, jobId: string) => readJob(db, systems, owner, project, jobId),
    timeline: (owner: Owner, project: Required<PathScope>, jobId: string) =>
      readTimeline(db, systems, owner, project, jobId),
    async submit(submission: Submission): Promise<string> {
      const json = await submitJob(submissionDeps, submission);
      userTopic.publish(submission.actor.userId);
      return json;
    },
    cancel: (action: JobAction, idempotency: IdempotentRequest | null) => cancelJob(deps, action, idempotency),
    delete: (action: JobAction) => deleteJob(deps, action),
  };
}
