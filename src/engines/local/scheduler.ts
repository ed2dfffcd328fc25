import { createSlots } from '../../domain/slots.ts';
import type { JobList, LocalJob } from './job-list.ts';
import { recordOffer } from './records.ts';
import type { SupervisorClient } from './supervisor/client.ts';
import type { RunSettings } from './supervisor/run-job.ts';

export interface SchedulerOptions {
  list: JobList;
  totalCores: number;
  settings: RunSettings;
  supervisor: SupervisorClient;
  onChange(): void;
  onError(message: string): void;
}

/** Every reported change leads to a poll. It does not read the records of all other jobs, which are checked at this interval. */
const checkIntervalMs = 500;

/** Starts queued jobs when enough cores are free. Their owners take turns. */
export function createScheduler(options: SchedulerOptions) {
  const { list, totalCores, settings, supervisor, onChange, onError } = options;
  /** Jobs whose claim and end the supervisor reports. Supervisors of an earlier process do not, nor does one that was let go. */
  const reporting = new Set<LocalJob>();
  /** Running jobs that have no process any more. They need no core while their ends are recorded. */
  const exited = new Set<LocalJob>();
  const { run: exclusively } = createSlots({ total: 1 });
  let checkedAt = Number.NEGATIVE_INFINITY;
  let isStopped = false;

  function coresInUse(): number {
    const unclaimed = [...reporting].filter(list.queued.has);
    const occupying = [...list.running, ...unclaimed].filter((job) => !exited.has(job));
    return occupying.reduce((sum, job) => sum + job.cores, 0);
  }

  function startQueuedJobs(): void {
    const freeCores = totalCores - coresInUse();
    // Every submission comes here, and usually no core is free.
    if (isStopped || freeCores <= 0) return;
    const queue = list.queued.inTurns((job) => !reporting.has(job));
    for (const job of selectStartable(queue, freeCores)) start(job);
  }

  function start(job: LocalJob): void {
    reporting.add(job);
    list.watch(job);
    list.queued.recordTurn(job);
    const onEnd = (failure: string | null) => {
      if (failure !== null) onError(`job ${job.jobId}: ${failure}`);
      // Until the refresh, the job keeps its cores.
      refresh(job, () => {
        reporting.delete(job);
        exited.delete(job);
      });
    };
    const onExit = () => {
      exited.add(job);
      startQueuedJobs();
    };
    try {
      recordOffer(job.folder);
      supervisor.run({ folder: job.folder, settings, onClaim: () => refresh(job), onExit, onEnd });
    } catch (error) {
      onEnd(error instanceof Error ? error.message : String(error));
    }
  }

  function refresh(job: LocalJob, beforeRefresh = () => {}): void {
    if (isStopped) return;
    void exclusively(async () => {
      beforeRefresh();
      // A job that is still queued could not be started. `poll` retries it later, not at once.
      if (!(await list.refresh(job))) return;
      startQueuedJobs();
      onChange();
    });
  }

  /** Runs `work` while no other work on the job list runs, and then starts the jobs that fit. */
  function withExclusiveList<T>(work: () => Promise<T>): Promise<T> {
    return exclusively(async () => {
      const result = await work();
      startQueuedJobs();
      return result;
    });
  }

  return {
    withExclusiveList,
    refresh: (job: LocalJob) => refresh(job),
    /** Refreshes the jobs that may have changed, and returns all jobs. */
    async poll(): Promise<LocalJob[]> {
      return withExclusiveList(async () => {
        const isDue = performance.now() - checkedAt >= checkIntervalMs;
        if (isDue) checkedAt = performance.now();
        const jobs = isDue
          ? new Set([...list.changeable(), ...list.nextToVerify()])
          : list.changeable().filter((job) => !reporting.has(job));
        for (const job of jobs) await list.refresh(job);
        return list.all();
      });
    },
    /** After this no job is started, and no work on the list is in progress. */
    async stop(): Promise<void> {
      isStopped = true;
      await exclusively(async () => {});
    },
  };
}

/**
 * Selects the jobs to start now, in the given order. A job that does not fit blocks the jobs behind it, so that small jobs
 * cannot delay a large one forever.
 */
export function selectStartable<T extends { cores: number }>(queue: Iterable<T>, freeCores: number): T[] {
  const startable: T[] = [];
  let coresLeft = freeCores;
  for (const job of queue) {
    coresLeft -= job.cores;
    if (coresLeft < 0) break;
    startable.push(job);
  }
  return startable;
}
