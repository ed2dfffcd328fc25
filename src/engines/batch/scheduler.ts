import type { Observation } from '../../domain/jobs/transition.ts';
import type { RunResult } from '../../shell/shell.ts';
import type { EngineJob } from '../engine.ts';
import type { BatchCommand } from './run-command.ts';

/** A job of Bursar that the scheduler lists. */
export interface BatchJob {
  ref: string;
  /** Its job id, whatever the scheduler needs around it in the name of a job. */
  name: string;
  /** Null if its state is unknown. */
  observation: Observation | null;
  /** It was submitted, and not released yet. */
  isHeld: boolean;
  /** It was cancelled while it was held. */
  wasCancelledHeld: boolean;
  /** It has ended in a way that looks the same if its node refused to start it. */
  mayBeRefused: boolean;
}

/** A job that the scheduler does not list. */
export interface UnlistedJob {
  jobId: string;
  ref: string;
  /** When it was last listed, or was not submitted yet. */
  lastSeenAt: number;
}

/**
 * The commands of a batch scheduler. A `ref` is its own id of a job; the refs of successive submissions ascend. Every failure is
 * a BursarError.
 */
export interface BatchScheduler {
  /** For messages. */
  name: string;
  /** Submits the script of a job held, under a name by which `list` knows its job id. */
  submission(job: EngineJob, script: string): BatchCommand;
  /**
   * Returns the ref, or throws:
   * - `job_refused` only if the scheduler says that it can never run this job;
   * - `queue_full`, which is transient, if the account has as many jobs as it may: the job does not exist;
   * - `invalid_config` if the options of the site are rejected: the job does not exist, and can be submitted after a repair;
   * - a transient error after any other failure: the job may or may not exist.
   */
  parseSubmission(result: RunResult): string;
  /** Lists the jobs of Bursar, in one command. */
  list(signal: AbortSignal): Promise<BatchJob[]>;
  /** Releases jobs. Those that are released or have ended do not matter. */
  release(refs: readonly string[], signal: AbortSignal): Promise<void>;
  /** Cancels jobs. Those that have ended do not matter. */
  cancel(refs: readonly string[], signal: AbortSignal): Promise<void>;
  cancelByName(jobId: string, signal: AbortSignal): Promise<void>;
  /** Reads the ends of jobs that are not listed any more; null if there is no source. An id may have been given twice. */
  readEnds: ((refs: readonly string[], signal: AbortSignal) => Promise<Observation[]>) | null;
  /** Finds those of the jobs that it has certainly forgotten. Returns their job ids. */
  findForgotten(jobs: readonly UnlistedJob[], signal: AbortSignal): Promise<Set<string>>;
}
