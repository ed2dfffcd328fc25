import type { EndCause } from '../job-end.ts';
import type { JobProcessSelector } from '../process-table.ts';
import { readResidentKib, scanProcesses } from '../processes.ts';

export interface WatchedJob {
  /** By `performance.now()`. */
  deadlineMs: number;
  memoryMb: number;
  processes: JobProcessSelector;
  /** Returns why the job must end, although it is within its limits. */
  findStopRequest(): EndCause | null;
  /** Called at every check for each exceeded limit and for a request to stop. */
  onCause(cause: EndCause): void;
}

export type LimitWatcher = ReturnType<typeof createLimitWatcher>;

const intervalMs = 500;
/** Pauses last this many times as long as a check, so that checks use at most 1/50 of a core on a slow machine. */
const pauseFactor = 50;
/**
 * On a busy machine a check may wait for a CPU. The pause is then bounded, because a cancellation whose signal was lost is found
 * by a check: the engine ends a job whose supervisor has not ended it within 15 s.
 */
const maxPauseMs = 5000;

/** Checks the limits of all running jobs, and whether they must stop, twice a second. */
export function createLimitWatcher() {
  const jobs = new Set<WatchedJob>();
  let timer: NodeJS.Timeout | undefined;
  let isChecking = false;
  let nextCheckAt = 0;

  /** The first check of a job is after a pause: a check takes longer than many a short job. */
  function schedule(): void {
    clearTimeout(timer);
    if (jobs.size === 0 || isChecking) return;
    // A time limit may exceed 24 days, the maximum of a timer; the pause never does.
    const dueAt = Math.min(nextCheckAt, ...[...jobs].map(({ deadlineMs }) => deadlineMs));
    timer = setTimeout(check, Math.max(1, dueAt - performance.now()));
  }

  async function check(): Promise<void> {
    isChecking = true;
    const startedAt = performance.now();
    for (const job of jobs) if (startedAt >= job.deadlineMs) job.onCause({ kind: 'time_limit_reached' });
    checkStopRequests();
    // A failed read is no reason to end a job.
    await checkMemory().catch(() => {});
    const endedAt = performance.now();
    nextCheckAt = endedAt + Math.min(maxPauseMs, Math.max(intervalMs, (endedAt - startedAt) * pauseFactor));
    isChecking = false;
    schedule();
  }

  /** Checks at once whether jobs must stop. */
  function checkStopRequests(): void {
    for (const job of jobs) {
      const cause = job.findStopRequest();
      if (cause !== null) job.onCause(cause);
    }
  }

  /** Reads the process table once for all jobs. */
  async function checkMemory(): Promise<void> {
    const scan = await scanProcesses();
    for (const job of jobs)
      if (readResidentKib(scan, job.processes) * 1024 > job.memoryMb * 1e6) job.onCause({ kind: 'memory_exceeded' });
  }

  return {
    /** Watches a job until the returned function is called. */
    watch(job: WatchedJob): () => void {
      if (jobs.size === 0) nextCheckAt = performance.now() + intervalMs;
      jobs.add(job);
      schedule();
      return () => {
        jobs.delete(job);
        schedule();
      };
    },
    checkStopRequests,
  };
}
