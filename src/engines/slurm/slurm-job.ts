import { secondsPerHour } from '../../domain/units.ts';

/**
 * The end of a batch script. `launch_failed`: it never ran. `duplicate_start`: it stopped because the job ran before.
 * `not_started`: it stopped before anything of the job ran.
 */
export type SlurmExit = { code: number; signal: number } | 'launch_failed' | keyof typeof wrapperSignals;

/**
 * The wrapper kills itself by one of these signals if it runs nothing. They are real-time signals, which programs do not use. A
 * job that is not isolated could send them to its wrapper: see `credibleExit`.
 */
export const wrapperSignals = { not_started: 46, duplicate_start: 47 } as const;

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
 * Decodes squeue's `exit_code`, which is a wait(2) status. For a job that could not be started it is a Slurm error number
 * instead, which decodes to both a code and a signal; a real process has only one of them.
 */
export function decodeWaitStatus(status: number): SlurmExit {
  const [code, signal] = [status >> 8, status & 0x7f];
  return ownExit(code, signal) ?? (code > 0 && signal > 0 ? 'launch_failed' : { code, signal });
}

/**
 * Parses sacct's `ExitCode`, which is `code:signal`. For a job that could not be started, only the low bits of Slurm's
 * error number are left. They look like a real-time signal, which programs do not use.
 */
export function parseSacctExitCode(text: string): SlurmExit {
  const [code = 0, signal = 0] = text.split(':').map(Number);
  return ownExit(code, signal) ?? (signal >= 32 && signal < 65 ? 'launch_failed' : { code, signal });
}

/** The exit by which the wrapper reports that it ran nothing. */
function ownExit(code: number, signal: number): keyof typeof wrapperSignals | null {
  if (code !== 0) return null;
  if (signal === wrapperSignals.duplicate_start) return 'duplicate_start';
  return signal === wrapperSignals.not_started ? 'not_started' : null;
}
