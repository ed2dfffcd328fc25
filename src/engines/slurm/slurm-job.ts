import { secondsPerHour } from '../../domain/units.ts';

/** How a job's batch script ended. `unstarted`: Slurm could not even start it. `again`: it had been started before. */
export type SlurmExit = { code: number; signal: number } | 'unstarted' | 'again';

/** The signal that a job ends by when it is started again: one of the real-time signals, which kill no ordinary program. */
export const duplicateStartSignal = 47;

/** A job, as squeue or sacct tells of it. Times are epoch milliseconds; null where there is none (yet). */
export interface SlurmJob {
  ref: string;
  name: string;
  /** In Slurm's own words, such as `NODE_FAIL`, and `CANCELLED by 1000` in accounting. */
  state: string;
  /** Why it waits, or why it ended; empty where Slurm does not say. */
  reason: string;
  exit: SlurmExit;
  startedAt: number | null;
  endedAt: number | null;
  elapsedSeconds: number;
  /** Empty when it never got a node. */
  nodeList: string;
  nodes: number;
  cores: number;
}

/** `1794712926`; `N/A`, `NONE` and `Unknown` where there is none. */
export function parseTime(text: string): number | null {
  return /^\d+$/.test(text) && text !== '0' ? Number(text) * 1000 : null;
}

/** `0:02`, `1:02:03`, `4-01:02:03`. */
export function parseElapsed(text: string): number {
  const [, days, hours, minutes, seconds] = /^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)$/.exec(text) ?? [];
  return (
    Number(days ?? 0) * 24 * secondsPerHour +
    Number(hours ?? 0) * secondsPerHour +
    Number(minutes ?? 0) * 60 +
    Number(seconds ?? 0)
  );
}

/** Slurm writes `(null)` and `None` where there is nothing. */
export function parseText(text: string): string {
  return text === '(null)' || text === 'None' || text === 'None assigned' ? '' : text;
}

/**
 * squeue's `exit_code` is what wait(2) gave, unless the job could not be started: then it is the number of one of
 * Slurm's errors, which looks like a code and a signal at once. A process has either.
 */
export function decodeWaitStatus(status: number): SlurmExit {
  const [code, signal] = [status >> 8, status & 0x7f];
  if (code === 0 && signal === duplicateStartSignal) return 'again';
  return code > 0 && signal > 0 ? 'unstarted' : { code, signal };
}

/**
 * sacct's `ExitCode` is `code:signal`. Of the number of an error only the low bits are left, which look like one of the
 * real-time signals: they kill no ordinary program.
 */
export function parseSacctExitCode(text: string): SlurmExit {
  const [code = 0, signal = 0] = text.split(':').map(Number);
  if (code === 0 && signal === duplicateStartSignal) return 'again';
  return signal >= 32 && signal < 65 ? 'unstarted' : { code, signal };
}
