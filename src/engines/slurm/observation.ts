import { maxRefusalSeconds } from '../../domain/jobs/end-record.ts';
import type { JobEnd, Outcome } from '../../domain/jobs/job.ts';
import type { Observation } from '../../domain/jobs/transition.ts';
import { type OutcomeFields, outcomeForExit, succeeded } from '../exit-outcome.ts';
import type { NotRunReason, SlurmExit, SlurmJob } from './slurm-job.ts';

/** Returns null for an unknown state. */
export function toObservation(reported: SlurmJob, now: number): Observation | null {
  const job = { ...reported, exit: credibleExit(reported) };
  const common = { jobId: job.name, ref: job.ref, engineMessage: stateAndReason(job) };
  // sacct prints `CANCELLED by 1000`.
  const [state = ''] = job.state.split(' ', 1);
  if (pendingStates.has(state)) return { ...common, kind: 'queued', held: job.reason === 'JobHeldUser' };
  if (runningStates.has(state)) {
    const isEnding = state === 'COMPLETING';
    return { ...common, kind: 'running', startedAt: job.startedAt ?? now, isEnding, allocation: toAllocation(job) };
  }
  const outcome = outcomeForState(state, job);
  if (outcome === null) return null;
  const { isExitMissing } = job;
  return { ...common, kind: 'finished', ...outcome, ...toUsage(job, now), ...(isExitMissing && { isExitMissing }) };
}

const stateAndReason = ({ state, reason }: SlurmJob) => (reason === '' ? state : `${state}, ${reason}`);

const pendingStates = new Set([
  'PENDING',
  'CONFIGURING',
  'REQUEUED',
  'REQUEUE_FED',
  'REQUEUE_HOLD',
  'RESV_DEL_HOLD',
  'SPECIAL_EXIT',
]);
const runningStates = new Set(['RUNNING', 'COMPLETING', 'SUSPENDED', 'STOPPED', 'SIGNALING', 'STAGE_OUT', 'RESIZING']);

const notRunReasons: Record<NotRunReason, string> = {
  launch_failed: 'Slurm could not start the job',
  // The output files show what the first start did, but its exit code is unknown.
  duplicate_start:
    'Slurm started the job a second time, which was prevented; the end of the first start is unknown: see the job files',
  not_started:
    'the job could not be started on its node, nothing of it ran, and nothing is charged: its stderr says why and what to do',
};

/**
 * A node or the wrapper reports soon after the start that nothing ran. A job that is not isolated can send a signal to its
 * wrapper that looks the same, after it has computed: then it was killed by that signal, and is charged. Only a code beside
 * the signal is certain: no process has both. The exit of a job that Slurm cancelled says nothing: its node may have refused it,
 * and only its start record tells.
 */
function credibleExit({ exit, state, elapsedSeconds }: SlurmJob): SlurmExit {
  const { code, signal } = exit;
  const isCredible = state === 'FAILED' && (code > 0 || elapsedSeconds <= maxRefusalSeconds);
  return isCredible ? exit : { code, signal };
}

/** Derives the outcome from the state: the exit code of a job that Slurm ended can have any value. */
function outcomeForState(state: string, job: SlurmJob): OutcomeFields | null {
  const result = (outcome: Outcome, reason: string): OutcomeFields => ({
    outcome,
    reason: `${reason} (${stateAndReason(job)})`,
    exitCode: null,
  });
  switch (state) {
    case 'COMPLETED':
      return succeeded;
    case 'FAILED':
      if (job.exit.notRun !== undefined) return result('node_failed', notRunReasons[job.exit.notRun]);
      // Ignores Slurm's reason, which adds nothing: a job killed by a signal is a `JobLaunchFailure` too.
      return outcomeForExit(job.exit) ?? result('failed', 'the job failed');
    case 'TIMEOUT':
      return result('timed_out', 'time limit reached');
    case 'DEADLINE':
      return result('timed_out', 'deadline reached, a limit set by the site');
    case 'OUT_OF_MEMORY':
      return result('out_of_memory', 'more memory used than allocated');
    case 'CANCELLED':
      return result('cancelled', 'cancelled');
    case 'PREEMPTED':
      return result('preempted', 'preempted by another job');
    case 'NODE_FAIL':
      return result('node_failed', 'a node of the job failed');
    case 'BOOT_FAIL':
      return result('node_failed', 'a node of the job failed to boot');
    case 'REVOKED':
      return result('lost', 'revoked: another cluster of the federation runs the job');
    default:
      return null;
  }
}

const toAllocation = ({ nodes, cores }: SlurmJob) => ({ nodes, cores });

function toUsage(job: SlurmJob, now: number): Pick<JobEnd, 'startedAt' | 'endedAt' | 'elapsedSeconds' | 'allocation'> {
  const endedAt = job.endedAt ?? now;
  // For a job that never got a node, Slurm reports the end time as its start time.
  if (job.nodeList === '' || job.startedAt === null || job.exit.notRun !== undefined) {
    return { startedAt: null, endedAt, elapsedSeconds: 0 };
  }
  return {
    startedAt: job.startedAt,
    endedAt: Math.max(endedAt, job.startedAt),
    // Slurm counts whole seconds; a job that ran used at least a part of one.
    elapsedSeconds: Math.max(1, job.elapsedSeconds),
    allocation: toAllocation(job),
  };
}
