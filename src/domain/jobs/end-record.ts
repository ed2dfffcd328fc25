import { assertNever } from '../errors.ts';
import type { JobEnd, ReportedEnd } from './job.ts';

/** The times of a report and of a record are rounded to seconds, and come from two clocks. */
const clockToleranceMs = 2000;
/** The clock of Bursar may differ by this much from that of the file system. The doctor warns of more. */
const maxClockDifferenceMs = 5000;

/** How a job ended, as its wrapper recorded it. Times are from the clock of the node. */
export interface RecordedEnd extends JobEnd {
  /** Whether a signal killed the job that systems use to stop jobs. */
  wasTerminated: boolean;
  /** When the record was written, by the file system: the job could forge the other times, but not this one. */
  writtenAt: number;
}

/**
 * The record that the wrapper of a job wrote on the node: the end of the job, or `never_started`. A job is `not_ended` if
 * it has started and left no end record: it still runs, or it was killed with its node.
 */
export type EndRecord = RecordedEnd | 'never_started' | 'not_ended';

/**
 * Returns how a job really ended. `report` is the end that the system reports, `record` what the wrapper of the job
 * wrote: after a crash of its controller a system can report an end that is wrong. The record decides the times, and the
 * outcome of a job that ended by itself. Only the system knows why it stopped a job.
 */
export function reconcileEnd(report: ReportedEnd, record: EndRecord | undefined, limits: EndLimits): JobEnd {
  if (isKilledWithNode(report, record)) return toNodeFailed(report, 'its node failed: the job was killed with it');
  if (wasRestartRefused(report, record)) return toNodeFailed(report, 'the system lost the job and killed it');
  if (record === 'never_started' && isRefusal(report)) return toNeverStarted(report, limits.cancelRequestedAt !== null);
  // A job that ran and has no start record has removed it. The system's report remains.
  if (typeof record !== 'object') return report;
  const { outcome, reason, exitCode } = wasStopped(report, record, limits) ? report : attributeSignal(record, limits);
  const { startedAt, endedAt } = record;
  return { ...report, startedAt, endedAt, outcome, reason, exitCode, elapsedSeconds: countElapsed(report, record) };
}

/** The end as a system would report it that knows what the record says. */
export function toJobEnd({ wasTerminated: _wasTerminated, writtenAt: _writtenAt, ...end }: RecordedEnd): JobEnd {
  return end;
}

interface EndLimits {
  runtimeSeconds: number;
  cancelRequestedAt: number | null;
}

/** Whether a cancellation can have ended the job. One that a controller has forgotten can be cancelled after its own end. */
function isCancelRequested({ wasTerminated, writtenAt }: RecordedEnd, { cancelRequestedAt }: EndLimits): boolean {
  if (cancelRequestedAt === null) return false;
  return wasTerminated || cancelRequestedAt <= writtenAt + maxClockDifferenceMs;
}

/** A record names the signal that killed a job, but not its sender: a cancellation, if one was requested, or the time limit. */
function attributeSignal(record: RecordedEnd, limits: EndLimits): JobEnd {
  if (!record.wasTerminated) return record;
  if (isCancelRequested(record, limits))
    return { ...record, outcome: 'cancelled', reason: `cancelled (${record.reason})` };
  if (!hasReachedLimit(record, record.startedAt, limits)) return record;
  return { ...record, outcome: 'timed_out', reason: `time limit reached (${record.reason})`, exitCode: null };
}

function hasReachedLimit({ endedAt }: RecordedEnd, startedAt: number | null, { runtimeSeconds }: EndLimits): boolean {
  return endedAt - (startedAt ?? endedAt) >= runtimeSeconds * 1000 - clockToleranceMs;
}

/** Whether the report says that the system stopped the job, and the record does not contradict it. */
function wasStopped(report: JobEnd, record: RecordedEnd, limits: EndLimits): boolean {
  const { exitCode, wasTerminated } = record;
  const isCancelled = isCancelRequested(record, limits);
  switch (report.outcome) {
    case 'timed_out': {
      const startedAt = Math.min(record.startedAt ?? record.endedAt, report.startedAt ?? record.endedAt);
      return hasReachedLimit(record, startedAt, limits) || (wasTerminated && !isCancelled);
    }
    case 'out_of_memory':
    case 'output_exceeded':
    case 'preempted':
      return true;
    case 'cancelled':
    case 'cancelled_by_site':
      return isCancelled || wasTerminated;
    case 'node_failed':
      // A controller that has forgotten the end of a job reports the same: then the job was cancelled, or reached its limit.
      if (wasTerminated) return !isCancelled && !hasReachedLimit(record, record.startedAt, limits);
      // The processes on the other nodes can notice the failure of one node, and exit with an error.
      return exitCode !== 0 && (report.allocation?.nodes ?? 1) > 1;
    case 'succeeded':
    case 'failed':
    case 'rejected':
    case 'lost':
      return false;
    default:
      return assertNever(report.outcome);
  }
}

/** A node or the wrapper refuses a job at once. A job that ran for longer has removed its start record, or sent a false report. */
export const maxRefusalSeconds = 60;

/**
 * The exit code that a scheduler may report if a node refuses to start a job. A wrapper exits with it only if it has written the end
 * record.
 */
export const refusalExitCode = 1;

/**
 * Whether the system ended a job before anything of it ran: a node refused it. A job that is cancelled in the queue gets
 * no start time: an administrator cancelled it.
 */
export function wasEndedBeforeStart(
  report: JobEnd,
  record: EndRecord | undefined,
  isCancelRequested: boolean,
): boolean {
  return record === 'never_started' && isRefusal(report) && !isCancelRequested;
}

function isRefusal({ outcome, exitCode, startedAt, elapsedSeconds }: JobEnd): boolean {
  const isPossible = outcome === 'cancelled' || (outcome === 'failed' && exitCode === refusalExitCode);
  return isPossible && startedAt !== null && elapsedSeconds <= maxRefusalSeconds;
}

/**
 * A controller that was killed can forget the start of a job. It then kills the job and starts it again, and the node refuses
 * a job that it has just killed.
 */
function wasRestartRefused(report: JobEnd, record: EndRecord | undefined): boolean {
  return record === 'not_ended' && report.outcome === 'failed' && isRefusal(report);
}

/**
 * Whether the end may still be recorded or reported differently: the job has started, and the system does not know that;
 * or no end of its processes is known.
 */
export function isUncertain(report: ReportedEnd, record: EndRecord | undefined): boolean {
  if (isKilledWithNode(report, record) || wasRestartRefused(report, record)) return true;
  return record === 'not_ended' && report.startedAt === null && report.outcome !== 'lost';
}

/** Neither the node nor the wrapper of the job has reported its end. */
function isKilledWithNode({ isExitMissing = false }: ReportedEnd, record: EndRecord | undefined): boolean {
  return isExitMissing && (record === 'not_ended' || record === 'never_started');
}

function toNodeFailed({ isExitMissing: _isExitMissing, ...report }: ReportedEnd, cause: string): JobEnd {
  const reason = `${cause}, nothing is charged: submit it again (${report.reason})`;
  return { ...report, outcome: 'node_failed', reason, exitCode: null };
}

/** Nothing of the job ran, whatever the system reports as its usage. */
function toNeverStarted({ allocation: _allocation, ...report }: JobEnd, isCancelRequested: boolean): JobEnd {
  const end = { ...report, startedAt: null, elapsedSeconds: 0, exitCode: null };
  if (isCancelRequested && report.outcome === 'cancelled') return end;
  if (isCancelRequested) return { ...end, outcome: 'cancelled', reason: `cancelled (${report.reason})` };
  const reason = `the system ended the job before it started, nothing is charged: submit it again (${report.reason})`;
  return { ...end, outcome: 'node_failed', reason };
}

/** The runtime of the record, but no less than the part of the reported runtime that had passed when it was written. */
function countElapsed(report: JobEnd, record: RecordedEnd): number {
  if (report.startedAt === null) return record.elapsedSeconds;
  const startedAt = record.startedAt ?? record.endedAt;
  const includesRecord =
    report.startedAt <= startedAt + clockToleranceMs && report.endedAt >= record.endedAt - clockToleranceMs;
  // Systems do not count the time for which they suspended a job. The record cannot know it.
  if (includesRecord && report.elapsedSeconds < record.elapsedSeconds) return report.elapsedSeconds;
  const passedSeconds = Math.floor((record.writtenAt - report.startedAt) / 1000);
  return Math.max(record.elapsedSeconds, Math.min(report.elapsedSeconds, passedSeconds));
}
