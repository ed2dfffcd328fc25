import { secondsPerHour } from '../../domain/units.ts';

/**
 * The end of a batch script. `launch_failed`: it never ran. `duplicate_start`: it stopped because the job ran before.
 * `isolation_failed`: it stopped because the job cannot be isolated on the node.
 */
export type SlurmExit = { code: number; signal: number } | 'launch_failed' | 'duplicate_start' | 'isolation_failed';

/** The wrapper kills itself by this signal when the job was started before: a real-time signal, which programs do not use. */
export const duplicateStartSignal = 47;
/** The wrapper kills itself by this signal when the job cannot be isolated on the node. */
export const isolationFailedSignal = 46;

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
function ownExit(code: number, signal: number): SlurmExit | null {
  if (code !== 0) return null;
  if (signal === duplicateStartSignal) return 'duplicate_start';
  return signal === isolationFailedSignal ? 'isolation_failed' : null;
}
