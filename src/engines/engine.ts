import type { JobCommand, JobEnd } from '../domain/jobs/job.ts';
import type { Observation } from '../domain/jobs/transition.ts';

/** Where a job's files are, as absolute paths on the engine's side. */
export interface WorkspacePaths {
  /** The job's working directory: the unpacked zip. It exists before `submit`. */
  directory: string;
  stdout: string;
  stderr: string;
}

/** What the operator of a cluster wants for the jobs of a system or project. */
export interface SiteOptions {
  partition?: string;
  account?: string;
  qos?: string;
  constraint?: string;
  /** Further options of sbatch, as they are. */
  extraOptions?: readonly string[];
}

export interface EngineJob {
  /** Unique for ever; the engine uses it to recognise a repeated submission. */
  jobId: string;
  nodes: number;
  coresPerNode: number;
  runtimeSeconds: number;
  command: JobCommand;
  workspace: WorkspacePaths;
  /** Where on the site it goes, by the configuration of its system and project. */
  site: SiteOptions;
}

/** A job that an engine should have, under its own id. */
export interface MissingJob {
  ref: string;
  workspace: WorkspacePaths;
}

/**
 * `never_started`: nothing of the job has run, and nothing can run once its workspace is removed. It may have been
 * cancelled. `lost_by_system`: it never started and did not end either, so that it may be submitted again. A `JobEnd` is
 * read from the end record that the job's wrapper wrote.
 */
export type MissingJobStatus = 'never_started' | 'lost_by_system' | JobEnd;

export interface EngineHealth {
  ok: boolean;
  detail: string;
}

/**
 * One HPC system's scheduler. An engine knows nothing of users, quotas or the store.
 * Failures are BursarErrors: `transient` ones are worth another try, `job_refused` ones are final.
 */
export interface Engine {
  /** Reads back what an earlier life of this process left. Called once, before anything else. */
  open(signal: AbortSignal): Promise<void>;

  /**
   * After success the engine has the job durably; the answer is the engine's own id. It will run exactly once, when it
   * has been released. After a failure or a crash nobody knows: ask `find`, and repeat it where that knows nothing.
   */
  submit(job: EngineJob, signal: AbortSignal): Promise<string>;

  /**
   * Lets submitted jobs start, named with the engine's own ids, which the caller has stored. Only then can no crash
   * make a job run that nobody knows of. Repeating it changes nothing.
   */
  release(refs: ReadonlyMap<string, string>, signal: AbortSignal): Promise<void>;

  /** The engine's own ids of those of these jobs that it has. A job without one may safely be submitted. */
  find(jobIds: readonly string[], signal: AbortSignal): Promise<Map<string, string>>;

  /**
   * Everything the engine knows of its jobs, in one call however many there are. `expected` are the jobs that the
   * caller knows to be in the engine's hands, with the engine's ids. A job that is absent is unknown, not finished. A finished job is reported again and again until it is forgotten. A job may be seen
   * running and then finished as rejected, without a start: the engine had to begin to find out.
   */
  observe(expected: ReadonlyMap<string, string>, signal: AbortSignal): Promise<Observation[]>;

  /**
   * Finds out what happened to jobs that the engine should have but does not report, in a few commands for any number of
   * jobs. A job that is absent from the result may have started, and may still be running.
   */
  inspectMissing(missing: ReadonlyMap<string, MissingJob>, signal: AbortSignal): Promise<Map<string, MissingJobStatus>>;

  /** Removes what carries the name of a job under an id that nobody stored: a submission whose answer was lost. */
  discard(refs: readonly string[], signal: AbortSignal): Promise<void>;

  /**
   * Asks for the end of a job. After success the job will be observed as finished: cancelled, or whatever it
   * reached before. Cancelling a job that is finished or unknown does nothing.
   */
  cancel(jobId: string, signal: AbortSignal): Promise<void>;

  /**
   * Lets go of finished jobs whose end is stored. Forgetting one that is unknown does nothing. An engine whose system
   * keeps finished jobs for a while may go on reporting them. A forgotten job must never be submitted again: the engine
   * would take it for a new one.
   */
  forget(jobIds: readonly string[], signal: AbortSignal): Promise<void>;

  health(signal: AbortSignal): Promise<EngineHealth>;

  /** Adds a function to call when something has probably changed, so that the watcher need not wait. */
  onChange(wake: () => void): void;

  /** Stops scheduling. Jobs that run go on running, and are found again by the next `open`. */
  close(): Promise<void>;
}
