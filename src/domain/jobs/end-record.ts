import { assertNever } from '../errors.ts';
import type { JobEnd, Outcome } from './job.ts';

/** The times of a report and of a record are rounded to seconds, and come from two clocks. */
const clockToleranceMs = 2000;

/**
 * What the wrapper of a job wrote on the node: how the job ended, that it has not been started, or that it has been started
 * and not ended, or was killed with its node. The system's own report can be wrong after a crash of its controller; the
 * record cannot.
 */
export type EndRecord = JobEnd | 'never_started' | 'not_ended';

/**
 * Returns how a job really ended. `report` is the end that the system reports, `record` what the wrapper of the job
 * wrote. The record decides the times, and the outcome of a job that ended by itself. Only the system knows why it
 * stopped a job.
 */
export function reconcileEnd(
  report: JobEnd,
  record: EndRecord | undefined,
  { runtimeSeconds, isCancelRequested }: { runtimeSeconds: number; isCancelRequested: boolean },
): JobEnd {
  if (record === undefined || record === 'not_ended') return report;
  if (record === 'never_started') return toNeverStarted(report, isCancelRequested);
  const startedAt = Math.min(record.startedAt ?? record.endedAt, report.startedAt ?? record.endedAt);
  const hasReachedLimit = record.endedAt - startedAt >= runtimeSeconds * 1000 - clockToleranceMs;
  const wasStopped = isStopReason(report.outcome, {
    hasReachedLimit,
    isCancelRequested,
    hasExited: record.exitCode !== null,
  });
  const { outcome, reason, exitCode } = wasStopped ? report : record;
  return { ...report, ...record, outcome, reason, exitCode, elapsedSeconds: countElapsedSeconds(report, record) };
}

/** A missing end record names the signal that killed a job, but not its sender: here it was the requested cancellation. */
export function attributeSignalToCancellation(end: JobEnd): JobEnd {
  const isKilledBySignal = end.outcome === 'failed' && end.exitCode === null;
  return isKilledBySignal ? { ...end, outcome: 'cancelled', reason: `cancelled (${end.reason})` } : end;
}

/** Whether the reported outcome is a reason for which the system stops a job, and is consistent with the record. */
function isStopReason(
  outcome: Outcome,
  {
    hasReachedLimit,
    isCancelRequested,
    hasExited,
  }: Record<'hasReachedLimit' | 'isCancelRequested' | 'hasExited', boolean>,
): boolean {
  switch (outcome) {
    case 'timed_out':
      return hasReachedLimit;
    case 'out_of_memory':
    case 'output_exceeded':
    case 'preempted':
      return true;
    case 'cancelled':
    case 'cancelled_by_site':
      return isCancelRequested || !hasExited;
    case 'node_failed':
      return !hasExited;
    case 'succeeded':
    case 'failed':
    case 'rejected':
    case 'lost':
      return false;
    default:
      return assertNever(outcome);
  }
}

/**
 * Whether the system ended a job before anything of it ran: a node refused it. A job that is cancelled in the queue gets
 * no start time: an administrator cancelled it.
 */
export function wasEndedBeforeStart(
  report: JobEnd,
  record: EndRecord | undefined,
  isCancelRequested: boolean,
): boolean {
  return (
    record === 'never_started' && report.outcome === 'cancelled' && report.startedAt !== null && !isCancelRequested
  );
}

/** The end of a job of which nothing has run, whatever the system reports as its usage. */
function toNeverStarted(report: JobEnd, isCancelRequested: boolean): JobEnd {
  const { allocation: _allocation, ...end } = report;
  const neverStarted = { ...end, startedAt: null, elapsedSeconds: 0 };
  if (!wasEndedBeforeStart(report, 'never_started', isCancelRequested)) return neverStarted;
  const reason = `the system ended the job before it started, nothing is charged: submit it again (${report.reason})`;
  return { ...neverStarted, outcome: 'node_failed', reason };
}

/** Systems do not count the time for which they suspended a job. The record cannot know it. */
function countElapsedSeconds(report: JobEnd, record: JobEnd): number {
  const includesRecord =
    report.startedAt !== null &&
    report.startedAt <= (record.startedAt ?? 0) + clockToleranceMs &&
    report.endedAt >= record.endedAt - clockToleranceMs;
  return includesRecord ? Math.min(report.elapsedSeconds, record.elapsedSeconds) : record.elapsedSeconds;
}
