import { join } from 'node:path';
import type { EndRecord } from '../domain/jobs/end-record.ts';
import type { JobCommand } from '../domain/jobs/job.ts';
import type { Observation } from '../domain/jobs/transition.ts';
import type { WorkspacePaths } from '../files/workspaces/workspaces.ts';

export interface EngineJob {
  /** Never reused, so that the engine recognises a repeated submission. */
  jobId: string;
  nodes: number;
  coresPerNode: number;
  runtimeSeconds: number;
  /** Jobs with the same owner share their part of the system. */
  owner?: string;
  command: JobCommand;
  /** Absolute paths on the host where the job runs. The directory exists before `submit`. */
  workspace: WorkspacePaths;
  /** The folder inside the workspace's directory that the job starts in. Default: the directory itself. */
  startFolder?: string;
  /** The scheduler options that the operator has configured for the project, as the schema of the engine says. */
  site: object;
}

/** The folder that a job starts in: an absolute path on the host where it runs. */
export function startDirectoryOf({ workspace, startFolder = '' }: EngineJob): string {
  return join(workspace.directory, startFolder);
}

/** A job that the engine accepted but no longer reports. */
export interface MissingJob {
  /** The engine's own id of the job. */
  ref: string;
  workspace: WorkspacePaths;
  /** The job was submitted to the engine after this time. */
  acceptedAt: number;
}

/**
 * `never_started`: nothing of the job has run, and nothing can run once its workspace is removed. The job may have been
 * cancelled. `not_ended`: the job has started, and may still be running. `JobEnd`: the job ended; its wrapper recorded how.
 * The system has certainly forgotten the job if `isForgotten`: one that never started may then be submitted again.
 */
export interface MissingJobStatus {
  record: EndRecord;
  isForgotten: boolean;
}

export interface SubmitOptions {
  /**
   * Whether the caller stored its intent to submit this job just now, for the first time: no earlier call can have
   * reached the engine, which then need not search for the job. Default: false.
   */
  isFirstTry?: boolean;
  /** Called before the first step that can store the job, and if the engine has the job already. */
  beforeSubmission?(): void;
}

/**
 * The scheduler of one HPC system. An engine knows nothing of users, quotas or the store.
 *
 * Every failure is a BursarError. A `transient` failure may be retried; `job_refused` is final. A `ref` is the engine's
 * own id of a job.
 */
export interface Engine {
  /** Restores the state that an earlier process left. Called once, before any other method. */
  open(signal: AbortSignal): Promise<void>;

  /**
   * After success the engine has stored the job durably, and the result is its ref. The job runs exactly once, after it
   * has been released. After a failure or a crash the engine may or may not have the job: call `find`, and submit again
   * if it finds nothing. After a failure without a call of `beforeSubmission` it does not have the job.
   */
  submit(job: EngineJob, signal: AbortSignal, options?: SubmitOptions): Promise<string>;

  /**
   * Allows submitted jobs to start. `refs` maps job ids to refs. The caller must have stored the refs before: then no
   * crash can leave a running job whose ref is unknown. Safe to repeat.
   */
  release(refs: ReadonlyMap<string, string>, signal: AbortSignal): Promise<void>;

  /**
   * Returns the refs of the jobs that the engine has, by job id. A job that is not in the result can safely be submitted:
   * the engine does not have it, or has ended it before it started.
   */
  find(jobs: readonly Pick<EngineJob, 'jobId' | 'workspace'>[], signal: AbortSignal): Promise<Map<string, string>>;

  /**
   * Reports all jobs that the engine knows, in one call however many there are. `expected` maps the ids of the jobs
   * that the caller believes the engine has to their refs.
   *
   * A job that is absent from the result is unknown, not finished. A finished job is reported every time until it is
   * forgotten. A job may be reported as running and then as finished with outcome `rejected` and no start time: some
   * engines must start a job to find out that it cannot run.
   */
  observe(expected: ReadonlyMap<string, string>, signal: AbortSignal): Promise<Observation[]>;

  /**
   * Reads what the wrappers of jobs recorded, in few commands for any number of jobs. `workspaces` maps job ids to their
   * workspaces. A job whose record cannot be read is absent from the result. Empty for an engine whose reports are always
   * right.
   */
  readEndRecords(workspaces: ReadonlyMap<string, WorkspacePaths>, signal: AbortSignal): Promise<Map<string, EndRecord>>;

  /**
   * Makes sure that a job whose record is `never_started` never starts. A controller that is killed can forget that it ended
   * the job, and start it after its end was stored. Returns false if the job has started meanwhile.
   */
  preventStart(workspace: WorkspacePaths, signal: AbortSignal): Promise<boolean>;

  /**
   * Finds out what happened to jobs that the engine should have but does not report, in a few commands for any number of
   * jobs. A job whose record cannot be read is absent from the result.
   */
  inspectMissing(missing: ReadonlyMap<string, MissingJob>, signal: AbortSignal): Promise<Map<string, MissingJobStatus>>;

  /** Removes duplicates: jobs whose refs were never stored, because the response to their submission was lost. */
  discard(refs: readonly string[], signal: AbortSignal): Promise<void>;

  /**
   * Requests the end of a job. After success the job will be observed as finished: as cancelled, or with the outcome
   * that it reached before. Has no effect on a job that is finished or unknown.
   */
  cancel(jobId: string, signal: AbortSignal): Promise<void>;

  /**
   * Drops finished jobs whose end the caller has stored. Has no effect on unknown jobs. An engine whose scheduler keeps
   * finished jobs for a while may continue to report them, and one that remembers their ends reports those that a caller
   * still expects. Never submit a forgotten job again without `find`: the engine could treat it as a new job.
   */
  forget(jobIds: readonly string[], signal: AbortSignal): Promise<void>;

  /** Adds a listener that is called when a job has probably changed, so that the watcher can poll at once. */
  onChange(listener: () => void): void;

  /** Stops scheduling. Running jobs continue, and the next `open` finds them again. */
  close(): Promise<void>;
}
