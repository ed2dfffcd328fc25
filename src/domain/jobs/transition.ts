import { assertNever } from '../errors.ts';
import type { JobEnd, JobState, JobStatus } from './job.ts';

/**
 * What one look at an engine says about one job. A job that is not mentioned was not observed: nothing follows. `ref` is
 * the engine's own id of it; a job that is queued and `held` has not been released yet. `words` is what the engine says
 * itself, where that is more than what is made of it here.
 */
export type Observation = { jobId: string; ref: string; engineMessage?: string } & (
  | { kind: 'queued'; held: boolean }
  | { kind: 'running'; startedAt: number }
  | ({ kind: 'finished' } & JobEnd)
);

/** The statuses that an engine can bring a job into. */
export type ObservedStatus = Extract<JobStatus, { state: 'queued' | 'running' | 'ended' }>;

const order: Record<JobState, number> = { accepted: 0, submitting: 1, queued: 2, running: 3, ended: 4, deleted: 5 };

const stateSeen = { queued: 'queued', running: 'running', finished: 'ended' } as const;

/** Whether an observation changes anything for a job in this state. Nothing ever goes back, whatever the engine says. */
export function isStateChange(current: JobState, { kind }: Observation): boolean {
  return order[stateSeen[kind]] > order[current] && order[current] < order.ended;
}

/**
 * The status after an observation, or null when it tells nothing new.
 * `isToBeCancelled`: the owner has asked for its end.
 */
export function transition(
  current: JobStatus,
  observation: Observation,
  isToBeCancelled: boolean,
): ObservedStatus | null {
  return isStateChange(current.state, observation) ? observedStatus(observation, isToBeCancelled) : null;
}

function observedStatus(observation: Observation, isToBeCancelled: boolean): ObservedStatus {
  switch (observation.kind) {
    case 'queued':
      return { state: 'queued' };
    case 'running':
      return { state: 'running', startedAt: observation.startedAt };
    case 'finished': {
      const { jobId: _jobId, ref: _ref, kind: _kind, engineMessage: _words, ...end } = observation;
      return { state: 'ended', ...attributed(end, isToBeCancelled) };
    }
    default:
      return assertNever(observation);
  }
}

/**
 * An engine may know that a job was cancelled, and not by whom; its reason begins with `cancelled` then. Who has asked for
 * it is in the books: where it was not the owner, it was somebody on the cluster, and the owner's job has failed.
 */
function attributed(end: JobEnd, isToBeCancelled: boolean): JobEnd {
  if (end.outcome !== 'cancelled') return end;
  const outcome = isToBeCancelled ? 'cancelled' : 'cancelled_by_site';
  const who = isToBeCancelled ? 'its owner' : 'an administrator of the cluster';
  return { ...end, outcome, reason: end.reason.replace(/^cancelled(?: by its owner)?/, `cancelled by ${who}`) };
}
