import type { JobCommand } from '../domain/job.ts';
import type { Observation } from '../domain/transition.ts';

/** Where a job's files are, as absolute paths on the engine's side. */
export interface WorkspacePaths {
  /** The job's working directory: the unpacked zip. It exists before `submit`. */
  directory: string;
  stdout: string;
  stderr: string;
}

export interface EngineJob {
  /** Unique for ever; the engine uses it to recognise a repeated submission. */
  jobId: string;
  nodes: number;
  coresPerNode: number;
  runtimeSeconds: number;
  command: JobCommand;
  workspace: WorkspacePaths;
}

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
   * After success the engine has the job durably, and will run it exactly once; the answer is the engine's own id.
   * After a failure or a crash nobody knows: repeat it, any number of times. A repetition changes nothing.
   */
  submit(job: EngineJob, signal: AbortSignal): Promise<string>;

  /** The engine's own ids of those of these jobs that it has. A job without one may safely be submitted. */
  find(jobIds: readonly string[], signal: AbortSignal): Promise<Map<string, string>>;

  /**
   * Everything the engine knows of its jobs, in one call however many there are. A job that is absent is
   * unknown, not finished. A finished job is reported again and again until it is forgotten. A job may be seen
   * running and then finished as rejected, without a start: the engine had to begin to find out.
   */
  observe(signal: AbortSignal): Promise<Observation[]>;

  /**
   * Asks for the end of a job. After success the job will be observed as finished: cancelled, or whatever it
   * reached before. Cancelling a job that is finished or unknown does nothing.
   */
  cancel(jobId: string, signal: AbortSignal): Promise<void>;

  /**
   * Lets go of finished jobs whose end is stored. Forgetting one that is unknown does nothing. A forgotten job must
   * never be submitted again: the engine would take it for a new one.
   */
  forget(jobIds: readonly string[], signal: AbortSignal): Promise<void>;

  health(signal: AbortSignal): Promise<EngineHealth>;

  /** Adds a function to call when something has probably changed, so that the watcher need not wait. */
  onChange(wake: () => void): void;

  /** Stops scheduling. Jobs that run go on running, and are found again by the next `open`. */
  close(): Promise<void>;
}
