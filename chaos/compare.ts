import type { Outcome } from '../src/domain/jobs/job.ts';
import { type SubmittedJob, timeoutSeconds } from './workload.ts';

/** A job as Bursar stored it. */
export interface StoredJob {
  jobId: string;
  title: string;
  outcome: Outcome | null;
  reason: string | null;
  exitCode: number | null;
  chargedSeconds: number;
  /** How long Slurm held cores for it; 0 if neither Slurm nor its wrapper recorded it. */
  heldSeconds: number;
  /** Whether its wrapper wrote an end record. */
  hasEndRecord: boolean;
  /** When the end was stored, in milliseconds since 1970; null if it was not. */
  endStoredAt: number | null;
}

/** The record that a job wrote itself, in seconds since 1970. `result` is an exit code or the name of a signal. */
export interface OwnRecord {
  starts: number[];
  ends: { at: number; result: string }[];
}

export function parseOwnRecord(text: string): OwnRecord {
  const record: OwnRecord = { starts: [], ends: [] };
  for (const line of text.split('\n')) {
    const [word, at, result = ''] = line.split(' ');
    if (word === 'start') record.starts.push(Number(at));
    if (word === 'end') record.ends.push({ at: Number(at), result });
  }
  return record;
}

export type Difference = 'lost' | 'doubled' | 'wrong outcome' | 'wrong charge';

/** The clocks of a job and of its wrapper are read at different moments, and a loaded machine can delay them. */
const toleranceSeconds = 3;

/** Times in milliseconds since 1970. */
export interface Kills {
  /** All processes of a node were killed, jobs included. */
  nodes: number[];
  /** A controller can forget the start of a job when it is killed. It then kills the job when it hears of it. */
  controllers: number[];
}

/**
 * Compares a job as stored with what the job itself recorded. `stored` has every job with its title. Returns null if they
 * agree.
 */
export function compareJob(
  job: SubmittedJob,
  stored: readonly StoredJob[],
  record: OwnRecord,
  kills: Kills,
): { kind: Difference; text: string } | null {
  const differ = (kind: Difference, text: string) => ({ kind, text: `${job.title}: ${text}` });
  const [first, ...others] = stored;
  if (first === undefined) return job.isAccepted ? differ('lost', 'accepted with 201, but not stored') : null;
  if (others.length > 0 || record.starts.length > 1) {
    return differ('doubled', `stored ${stored.length} times, started ${record.starts.length} times`);
  }
  const { outcome, reason, exitCode, chargedSeconds, heldSeconds, hasEndRecord, endStoredAt } = first;
  if (outcome === null) return differ('lost', 'it never ended');
  const described = `${outcome} (${reason})`;
  const [start] = record.starts;
  const [end] = record.ends;

  if (start === undefined) {
    const isPossible = outcome === 'node_failed' || (outcome === 'cancelled' && job.isCancelRequested);
    if (!isPossible) return differ('wrong outcome', `it never started, stored as ${described}`);
    // A job can be cancelled between its start by Slurm and the first command of its script.
    const maxSeconds = outcome === 'cancelled' ? Math.max(toleranceSeconds, heldSeconds + 1) * job.cores : 0;
    return chargedSeconds <= maxSeconds
      ? null
      : differ('wrong charge', `it never started, stored as ${described}, and paid ${chargedSeconds} s`);
  }

  if (end !== undefined) {
    // The job writes its own record before its wrapper writes the end record. No record of the end is left if the node is
    // killed between the two.
    const isNodeKill = (at: number) => Math.abs(at / 1000 - end.at) <= toleranceSeconds;
    const wasKilledBeforeEndRecord = !hasEndRecord && kills.nodes.some(isNodeKill);
    if (outcome === 'node_failed' && chargedSeconds === 0 && wasKilledBeforeEndRecord) return null;
    const isRight =
      (outcome === 'succeeded' && end.result === '0') ||
      (outcome === 'failed' && (end.result === 'SEGV' ? exitCode === null : exitCode === Number(end.result)));
    const records = hasEndRecord ? 'with an end record' : 'without an end record';
    if (!isRight) return differ('wrong outcome', `it ended with ${end.result} ${records}, stored as ${described}`);
    return isCharge(chargedSeconds / job.cores, end.at - start, heldSeconds)
      ? null
      : differ('wrong charge', `it ran for ${end.at - start} s on ${job.cores} cores and paid ${chargedSeconds} s`);
  }

  const isDuringJob = (at: number) => at / 1000 >= start - toleranceSeconds && at <= (endStoredAt ?? 0);
  const wasControllerKilled = kills.controllers.some(isDuringJob);
  // A restarted controller kills jobs that it has forgotten.
  const wasLost = kills.nodes.some(isDuringJob) || wasControllerKilled;
  const isPossible =
    (outcome === 'cancelled' && job.isCancelRequested) ||
    (outcome === 'timed_out' && job.plan.kind === 'timeout') ||
    ((outcome === 'node_failed' || outcome === 'lost') && wasLost) ||
    (outcome === 'cancelled_by_site' && wasControllerKilled) ||
    (outcome === 'failed' && exitCode === null);
  if (!isPossible) return differ('wrong outcome', `it was stopped, stored as ${described}`);
  const limit = job.plan.kind === 'timeout' ? timeoutSeconds * job.cores : Number.POSITIVE_INFINITY;
  const isFree = outcome === 'node_failed' || outcome === 'lost';
  // The system lost the job, and its owner cancelled it meanwhile.
  if (outcome === 'cancelled' && chargedSeconds === 0 && wasControllerKilled) return null;
  if (isFree ? chargedSeconds > 0 : chargedSeconds < job.cores || chargedSeconds > limit)
    return differ('wrong charge', `${described}, paid ${chargedSeconds} s on ${job.cores} cores`);
  return null;
}

/** A job pays for the time that cores were held for it, for no less than its script ran, and for at least one second. */
function isCharge(paidSeconds: number, ranSeconds: number, heldSeconds: number): boolean {
  const expected = Math.max(ranSeconds, 1);
  return (
    paidSeconds >= expected - toleranceSeconds && paidSeconds <= Math.max(expected + toleranceSeconds, heldSeconds + 1)
  );
}
