/**
 * A job's life, as Bursar sees it whatever the HPC system:
 *
 *   accepted ──▶ submitting ──▶ queued ──▶ running ──▶ ended ──▶ deleted
 *
 * accepted    the row, its hold and its zip are durable; 201 was answered
 * submitting  the intent to submit is stored: from here on the engine may know the job
 * queued      the engine has it
 * running     the engine has started it
 * ended       it is over, with one outcome; the hold is settled
 * deleted     its files are gone; its outcome stays
 *
 * Any state may go straight to `ended`; nothing ever goes back.
 */
export type JobState = 'accepted' | 'submitting' | 'queued' | 'running' | 'ended' | 'deleted';

/** Ways to end. Accounting needs them apart even where the stage that is shown is the same. */
export type Outcome =
  | 'succeeded'
  | 'failed' // its own exit code, or a signal it brought on itself
  | 'timed_out'
  | 'out_of_memory'
  | 'output_exceeded'
  | 'cancelled' // by its owner
  | 'cancelled_by_site' // by an administrator of the cluster
  | 'rejected' // the system would not take it; it never ran
  | 'lost' // the system forgot it, or its supervisor died
  | 'node_failed'
  | 'preempted';

/** How a job ended: what the engine reports, and what is stored. Times are epoch milliseconds. */
export interface JobEnd {
  outcome: Outcome;
  /** One line for people, such as "exit code 3". */
  reason: string;
  exitCode: number | null;
  /** Null when it never started. */
  startedAt: number | null;
  endedAt: number;
  /** Whole seconds of wall-clock time it ran. */
  elapsedSeconds: number;
  /** What the system really gave it, where that is known to differ from what was asked. */
  allocation?: { nodes: number; cores: number };
}

export type JobStatus =
  | { state: 'accepted' }
  | { state: 'submitting' }
  | { state: 'queued' }
  | { state: 'running'; startedAt: number }
  | ({ state: 'ended' } & JobEnd)
  | ({ state: 'deleted' } & JobEnd);

/** What a job runs. A line goes through a shell, a script is run by its own `#!`, an argv is run as it is. */
export type JobCommand =
  | { kind: 'line'; line: string }
  | { kind: 'script'; script: string; args: string[] }
  | { kind: 'argv'; argv: string[] };

/** What was granted at submission; never changes afterwards. */
export interface JobRequest {
  title: string;
  nodes: number;
  coresPerNode: number;
  /** Granted, after the system's runtime policy. */
  runtimeHours: number;
  command: JobCommand;
  /** The tool of a tool system; null on a batch system. */
  tool: string | null;
  /** A file that the zip must bring, because the tool starts from it. */
  entry: string | null;
}

export function isTerminal(state: JobState): boolean {
  return state === 'ended' || state === 'deleted';
}

/** `failed` of the interface: every end but success and cancellation by the owner. */
export function isFailure(outcome: Outcome): boolean {
  return outcome !== 'succeeded' && outcome !== 'cancelled';
}
