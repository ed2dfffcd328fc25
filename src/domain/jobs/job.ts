import { assertNever } from '../errors.ts';

/**
 * The lifecycle of a job, the same for every HPC system:
 *
 *   accepted ──▶ submitting ──▶ queued ──▶ running ──▶ ended ──▶ deleted
 *
 * accepted    the job row, its hold and its zip are durable; the caller got 201
 * submitting  the intent to submit is stored: from now on the engine may know the job
 * queued      the engine has the job
 * running     the engine has started the job
 * ended       the job has one final outcome; its hold is settled
 * deleted     its files are deleted; its outcome is kept
 *
 * Any state may change directly to `ended`. A state never goes back, with one exception: a `queued` job that its system
 * lost or refused before it started is `submitting` again.
 */
export type JobState = 'accepted' | 'submitting' | 'queued' | 'running' | 'ended' | 'deleted';

/** How a job ended. Accounting distinguishes outcomes that users see as the same stage. */
export const outcomes = [
  'succeeded',
  'failed', // by its exit code, or by a signal that it caused itself
  'timed_out',
  'out_of_memory',
  'output_exceeded', // too much output, too many files, or more space than the quota has left
  'cancelled', // by its owner
  'cancelled_by_site', // by an administrator of Bursar or of the cluster
  'rejected', // the system refused it; it never ran
  'lost', // the system has no record of it, or its supervisor died
  'node_failed',
  'preempted',
] as const;

export type Outcome = (typeof outcomes)[number];

/** A limit of the files of a running job: the space that its quota has left, or their number. */
export const fileLimits = ['space_limit', 'file_limit'] as const;
export type FileLimit = (typeof fileLimits)[number];

/** Why Bursar cancels a job: its owner or an administrator of Bursar asked for it, or the job exceeds a limit. */
export type CancelRequester = 'owner' | 'administrator' | FileLimit;

/** The end of a job, as the engine reports it and the store keeps it. Times are epoch milliseconds. */
export interface JobEnd {
  outcome: Outcome;
  /** One line for people, such as "exit code 3". */
  reason: string;
  exitCode: number | null;
  /** Null if the job never started. */
  startedAt: number | null;
  endedAt: number;
  /** Wall-clock runtime in whole seconds. */
  elapsedSeconds: number;
  /** The actual allocation, if it is known to differ from the requested one. */
  allocation?: Allocation;
}

/** The end of a job as its system reports it. */
export interface ReportedEnd extends JobEnd {
  /** The system stopped the job, but no node reported that its processes have ended: they may have died with the node. */
  isExitMissing?: boolean;
}

/** The resources that the system allocated to a job. `cores` is the total over all nodes. */
export interface Allocation {
  nodes: number;
  cores: number;
}

export type JobStatus =
  | { state: 'accepted' }
  | { state: 'submitting' }
  | { state: 'queued' }
  | { state: 'running'; startedAt: number }
  | ({ state: 'ended' } & JobEnd)
  | ({ state: 'deleted' } & JobEnd);

/** The program of a job: a line for a shell, a script run by its own `#!`, or an argv run as is. */
export type JobCommand =
  | { kind: 'line'; line: string }
  | { kind: 'script'; script: string; args: string[] }
  | { kind: 'argv'; argv: string[] };

/** The request as accepted. It never changes afterwards. */
export interface JobRequest {
  title: string;
  nodes: number;
  coresPerNode: number;
  /** The runtime after the runtime policy of the system. */
  runtimeHours: number;
  command: JobCommand;
  /** The tool of a tool system; null on a batch system. */
  tool: string | null;
  /** A file that the zip must contain, because the tool reads it first; null if there is none. */
  entry: string | null;
  /** The top folder of the zip, if the job starts in it and not at the top. */
  startFolder?: string;
  /** The parameters of the tool that the caller gave. Jobs of batch systems and of earlier versions have none. */
  params?: Readonly<Record<string, string | string[]>>;
  /** Words of the owner's choice, to find jobs again. Not empty. */
  tags?: readonly string[];
}

/** Jobs of `bursar doctor` have ids that begin with this, and are not stored. */
export const doctorJobPrefix = 'DOCTOR-';

export function isTerminal(state: JobState): boolean {
  return state === 'ended' || state === 'deleted';
}

/** The public field `failed`: true for every outcome except success and cancellation by the owner. */
export function isFailure(outcome: Outcome): boolean {
  return outcome !== 'succeeded' && outcome !== 'cancelled';
}

/** The names that a system shows to users for the states of its jobs. */
export interface StageNames {
  queued: string;
  running: string;
  succeeded: string;
  failed: string;
  cancelled: string;
  deleted: string;
}

export function toStage(status: JobStatus, stageNames: StageNames): string {
  switch (status.state) {
    case 'accepted':
    case 'submitting':
    case 'queued':
      return stageNames.queued;
    case 'running':
      return stageNames.running;
    case 'ended':
      if (status.outcome === 'succeeded') return stageNames.succeeded;
      return status.outcome === 'cancelled' ? stageNames.cancelled : stageNames.failed;
    case 'deleted':
      return stageNames.deleted;
    default:
      return assertNever(status);
  }
}
