import { assertNever } from '../errors.ts';
import type { Allocation, CancelRequester, JobEnd, JobState, JobStatus, ReportedEnd } from './job.ts';

/**
 * The state of one job in one poll of an engine. A job without an observation keeps its state. `ref` is the engine's own
 * job id. A queued job that is `held` has not been released yet. A running job that `isEnding` is about to end.
 * `engineMessage` is the engine's own description of the state, if it says more than the observation.
 */
export type Observation = { jobId: string; ref: string; engineMessage?: string } & (
  | { kind: 'queued'; held: boolean }
  | { kind: 'running'; startedAt: number; isEnding?: boolean; allocation?: Allocation }
  | ({ kind: 'finished' } & ReportedEnd)
);

/** The statuses that an observation can lead to. */
export type ObservedStatus = Extract<JobStatus, { state: 'queued' | 'running' | 'ended' }>;

const rank: Record<JobState, number> = { accepted: 0, submitting: 1, queued: 2, running: 3, ended: 4, deleted: 5 };

const observedState = { queued: 'queued', running: 'running', finished: 'ended' } as const;

/**
 * True if the observation moves a job forward. A job never goes back to an earlier state, whatever the engine reports. A job
 * that is already ending may never have started, because its node refused it: only its end tells.
 */
export function isStateChange(current: JobState, observation: Observation): boolean {
  if (observation.kind === 'running' && observation.isEnding) return false;
  return rank[observedState[observation.kind]] > rank[current];
}

/** Returns the status after an observation, or null if it does not change. */
export function transition(
  current: JobStatus,
  observation: Observation,
  cancelRequestedBy: CancelRequester | null,
): ObservedStatus | null {
  return isStateChange(current.state, observation) ? observedStatus(observation, cancelRequestedBy) : null;
}

function observedStatus(observation: Observation, cancelRequestedBy: CancelRequester | null): ObservedStatus {
  switch (observation.kind) {
    case 'queued':
      return { state: 'queued' };
    case 'running':
      return { state: 'running', startedAt: observation.startedAt };
    case 'finished': {
      const { outcome, reason, exitCode, startedAt, endedAt, elapsedSeconds, allocation } = observation;
      const end = { outcome, reason, exitCode, startedAt, endedAt, elapsedSeconds, ...(allocation && { allocation }) };
      return { state: 'ended', ...attributeCancellation(end, cancelRequestedBy) };
    }
    default:
      return assertNever(observation);
  }
}

/**
 * An engine may know that a job was cancelled, but not by whom; its reason then begins with `cancelled`. Without a request
 * to Bursar, an administrator of the cluster did it. A job that its owner did not cancel counts as failed.
 */
function attributeCancellation(end: JobEnd, cancelRequestedBy: CancelRequester | null): JobEnd {
  if (end.outcome !== 'cancelled') return end;
  const { outcome, reason } = describeCancellation(cancelRequestedBy);
  return { ...end, outcome, reason: end.reason.replace(/^cancelled(?: by its owner)?/, reason) };
}

/** The outcome of a cancelled job, and the start of its reason. */
export function describeCancellation(requestedBy: CancelRequester | null): Pick<JobEnd, 'outcome' | 'reason'> {
  switch (requestedBy) {
    case 'owner':
      return { outcome: 'cancelled', reason: 'cancelled by its owner' };
    case 'administrator':
      return { outcome: 'cancelled_by_site', reason: 'cancelled by an administrator' };
    case 'space_limit':
      return { outcome: 'output_exceeded', reason: 'its files took more space than the quota has left' };
    case 'file_limit':
      return { outcome: 'output_exceeded', reason: 'it created more files and folders than allowed' };
    case null:
      return { outcome: 'cancelled_by_site', reason: 'cancelled by an administrator of the cluster' };
    default:
      return assertNever(requestedBy);
  }
}
