import { secondsPerHour } from '../../domain/units.ts';
import { wrapperSignals } from '../batch/wrapper.ts';

/** Why nothing of a job ran: Slurm could not start its wrapper, or the wrapper stopped before anything else. */
export type NotRunReason = 'launch_failed' | keyof typeof wrapperSignals;

/** The end of a batch script, as wait(2) reports it. */
export interface SlurmExit {
  code: number;
  signal: number;
  /** Set if the exit says that nothing of the job ran: see `credibleExit`. */
  notRun?: NotRunReason;
}

/** A job as reported by squeue or sacct. Times are epoch milliseconds, null if not set yet. */
export interface SlurmJob {
  ref: string;
  name: string;
  /** Slurm's state, such as `NODE_FAIL`; sacct also prints `CANCELLED by 1000`. */
  state: string;
  /** Slurm's reason for waiting or ending; empty if there is none. */
  reason: string;
  exit: SlurmExit;
  /** No node has reported the exit of a job that Slurm stopped. */
  isExitMissing: boolean;
  startedAt: number | null;
  endedAt: number | null;
  elapsedSeconds: number;
  /** Empty if the job never got a node. */
  nodeList: string;
  nodes: number;
  cores: number;
}

/** Parses epoch seconds. `N/A`, `NONE`, `Unknown` and `0` become null. */
export function parseTime(text: string): number | null {
  return /^\d+$/.test(text) && text !== '0' ? Number(text) * 1000 : null;
}

/** Parses `0:02`, `1:02:03` or `4-01:02:03` to seconds. */
export function parseElapsed(text: string): number {
  const [, days, hours, minutes, seconds] = /^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)$/.exec(text) ?? [];
  return (
    Number(days ?? 0) * 24 * secondsPerHour +
    Number(hours ?? 0) * secondsPerHour +
    Number(minutes ?? 0) * 60 +
    Number(seconds ?? 0)
  );
}

/** Converts Slurm's placeholders for an absent value to ''. */
export function parseOptionalText(text: string): string {
  return text === '(null)' || text === 'None' || text === 'None assigned' ? '' : text;
}

/**
 * Parses an exit as sacct and squeue print it: `code:signal`, or a whole wait(2) status in squeue before Slurm 23.02. Null
 * for any other text.
 */
export function parseExit(text: string): SlurmExit | null {
  if (/^\d+$/.test(text)) return decodeWaitStatus(Number(text));
  const [, code, signal] = /^(\d+):(\d+)$/.exec(text) ?? [];
  return code === undefined ? null : toExit(Number(code), Number(signal), isRealTimeSignal(Number(signal)));
}

/**
 * For a job that could not be started, the status is a Slurm error number, which decodes to both a code and a signal. A real
 * process has only one of them. `code:signal` has lost the code: the rest looks like a real-time signal.
 */
function decodeWaitStatus(status: number): SlurmExit {
  const [code, signal] = [status >> 8, status & 0x7f];
  return toExit(code, signal, code > 0 && signal > 0);
}

const isRealTimeSignal = (signal: number) => signal >= 32 && signal < 65;

function toExit(code: number, signal: number, isLaunchFailure: boolean): SlurmExit {
  const notRun = findWrapperReport(code, signal) ?? (isLaunchFailure ? 'launch_failed' : null);
  return notRun === null ? { code, signal } : { code, signal, notRun };
}

function findWrapperReport(code: number, signal: number): keyof typeof wrapperSignals | null {
  if (code !== 0) return null;
  if (signal === wrapperSignals.duplicate_start) return 'duplicate_start';
  return signal === wrapperSignals.not_started ? 'not_started' : null;
}
