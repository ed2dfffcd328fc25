import { constants } from 'node:os';
import type { JobEnd, Outcome } from '../../domain/jobs/job.ts';
import type { Observation } from '../../domain/jobs/transition.ts';
import type { SlurmExit, SlurmJob } from './slurm-job.ts';

/** What a job in Slurm means for Bursar; null when Slurm says something that is not known here, which tells nothing. */
export function toObservation(job: SlurmJob, now: number): Observation | null {
  const engineMessage = [job.state, job.reason].filter((word) => word !== '').join(', ');
  const about = { jobId: job.name, ref: job.ref, engineMessage };
  // `CANCELLED by 1000`
  const [state = ''] = job.state.split(' ', 1);
  if (isWaiting.has(state)) return { ...about, kind: 'queued', held: job.reason === 'JobHeldUser' };
  if (isRunning.has(state)) return { ...about, kind: 'running', startedAt: job.startedAt ?? now };
  const verdict = outcomeForState(state, job);
  return verdict === null ? null : { ...about, kind: 'finished', ...verdict, ...usage(job, now) };
}

const isWaiting = new Set([
  'PENDING',
  'CONFIGURING',
  'REQUEUED',
  'REQUEUE_FED',
  'REQUEUE_HOLD',
  'RESV_DEL_HOLD',
  'SPECIAL_EXIT',
]);
const isRunning = new Set(['RUNNING', 'COMPLETING', 'SUSPENDED', 'STOPPED', 'SIGNALING', 'STAGE_OUT', 'RESIZING']);

/** What it did is in its files, but nobody knows how it ended. */
const startedTwice =
  'Slurm forgot that it had begun and started it again, which was prevented: see its files for what it did';

type OutcomeFields = Pick<JobEnd, 'outcome' | 'reason' | 'exitCode'>;

/** The outcome comes from the state: the exit code of a job that Slurm has ended may be anything. */
function outcomeForState(state: string, job: SlurmJob): OutcomeFields | null {
  const verdict = (outcome: Outcome, text: string): OutcomeFields => ({
    outcome,
    reason: `${text} (${[job.state, job.reason].filter((word) => word !== '').join(', ')})`,
    exitCode: null,
  });
  switch (state) {
    case 'COMPLETED':
      return succeeded;
    case 'FAILED':
      if (job.exit === 'unstarted') return verdict('node_failed', 'Slurm could not start it');
      if (job.exit === 'again') return verdict('node_failed', startedTwice);
      return outcomeForExit(job.exit) ?? verdict('failed', 'it failed');
    case 'TIMEOUT':
      return verdict('timed_out', 'it reached its time limit');
    case 'DEADLINE':
      return verdict('timed_out', 'it reached its deadline, a limit of the site');
    case 'OUT_OF_MEMORY':
      return verdict('out_of_memory', 'it used more memory than it was given');
    case 'CANCELLED':
      return verdict('cancelled', 'cancelled');
    case 'PREEMPTED':
      return verdict('preempted', 'it had to make room for another job');
    case 'NODE_FAIL':
      return verdict('node_failed', 'a node that it ran on failed');
    case 'BOOT_FAIL':
      return verdict('node_failed', 'a node that it was to run on did not start');
    case 'REVOKED':
      return verdict('lost', 'Slurm gave it away');
    default:
      return null;
  }
}

/** A reason of the job's own. Slurm's says nothing more: a job that a signal killed is a `JobLaunchFailure` too. */
function outcomeForExit({ code, signal }: Exclude<SlurmExit, string>): OutcomeFields | null {
  if (signal > 0) return { outcome: 'failed', reason: `killed by ${signalName(signal)}`, exitCode: null };
  // bash uses these two for itself, and every job is started by one.
  if (code === 127) return failed('command not found (exit code 127): stderr says which', code);
  if (code === 126) return failed('command not executable (exit code 126): stderr says which', code);
  return code > 0 ? failed(`exit code ${code}`, code) : null;
}

/** The end of a job by what a shell says of it: 128 and more for a signal. */
export function outcomeForExitCode(code: number): OutcomeFields {
  const exit = code > 128 && code < 160 ? { code: 0, signal: code - 128 } : { code, signal: 0 };
  return outcomeForExit(exit) ?? succeeded;
}

const succeeded: OutcomeFields = { outcome: 'succeeded', reason: 'exit code 0', exitCode: 0 };
const failed = (reason: string, exitCode: number): OutcomeFields => ({ outcome: 'failed', reason, exitCode });

function signalName(signal: number): string {
  return Object.entries(constants.signals).find(([, number]) => number === signal)?.[0] ?? `signal ${signal}`;
}

function usage(job: SlurmJob, now: number): Pick<JobEnd, 'startedAt' | 'endedAt' | 'elapsedSeconds' | 'allocation'> {
  const endedAt = job.endedAt ?? now;
  // A job that never got a node has a time of start all the same: that of its end.
  if (job.nodeList === '' || job.startedAt === null || typeof job.exit === 'string') {
    return { startedAt: null, endedAt, elapsedSeconds: 0 };
  }
  return {
    startedAt: job.startedAt,
    endedAt: Math.max(endedAt, job.startedAt),
    // Slurm counts whole seconds; whatever ran has used some of one.
    elapsedSeconds: Math.max(1, job.elapsedSeconds),
    allocation: { nodes: job.nodes, cores: job.cores },
  };
}
