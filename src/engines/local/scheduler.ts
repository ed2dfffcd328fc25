import pLimit from 'p-limit';
import type { JobList, LocalJob } from './job-list.ts';
import type { RunSettings } from './run-job.ts';
import { startSupervisor } from './start-supervisor.ts';

export interface SchedulerOptions {
  list: JobList;
  totalCores: number;
  settings: RunSettings;
  compileCacheFolder: string;
  onChange(): void;
  onError(message: string): void;
}

/** Starts queued jobs when enough cores are free. Their owners take turns. */
export interface Scheduler {
  /** Runs `work` while no other work on the job list runs, and then starts the jobs that fit. */
  withExclusiveList<T>(work: () => Promise<T>): Promise<T>;
  refresh(job: LocalJob): void;
  /** Refreshes all jobs: supervisors that an earlier process started report neither their claim nor their end. */
  refreshAll(): Promise<LocalJob[]>;
  coresInUse(): number;
  /** After this no job is started, and no work on the list is in progress. */
  stop(): Promise<void>;
}

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { list, totalCores, settings, compileCacheFolder, onChange, onError } = options;
  /** Jobs whose supervisor, started by this process, is not known to have claimed the job or to have ended. */
  const starting = new Set<string>();
  /** The owners of started jobs, in the order of their last starts. */
  const served = new Set<string>();
  const exclusively = pLimit(1);
  let isStopped = false;

  function coresInUse(): number {
    const startingJobs = list.listByState('queued').filter(({ jobId }) => starting.has(jobId));
    return [...list.listByState('running'), ...startingJobs].reduce((sum, job) => sum + job.cores, 0);
  }

  function startQueuedJobs(): void {
    if (isStopped) return;
    const queue = list.listByState('queued').filter(({ jobId }) => !starting.has(jobId));
    for (const job of selectStartable(takeTurns(queue, served), totalCores - coresInUse())) start(job);
  }

  function start(job: LocalJob): void {
    starting.add(job.jobId);
    served.delete(ownerOf(job));
    served.add(ownerOf(job));
    startSupervisor({
      folder: job.folder,
      compileCacheFolder,
      settings,
      onClaim: () => refresh(job),
      onExit: (failure) => {
        if (failure !== null) onError(`job ${job.jobId}: ${failure}`);
        // Until the refresh, the job keeps its cores.
        refresh(job, () => starting.delete(job.jobId));
      },
    });
  }

  function refresh(job: LocalJob, beforeRefresh = () => {}): void {
    if (isStopped) return;
    void exclusively(async () => {
      beforeRefresh();
      // A job that is still queued could not be started. `refreshAll` retries it later, not at once.
      if (!(await list.refresh(job))) return;
      startQueuedJobs();
      onChange();
    });
  }

  function withExclusiveList<T>(work: () => Promise<T>): Promise<T> {
    return exclusively(async () => {
      const result = await work();
      startQueuedJobs();
      return result;
    });
  }

  return {
    withExclusiveList,
    refresh: (job) => refresh(job),
    async refreshAll() {
      return withExclusiveList(async () => {
        for (const job of list.all()) await list.refresh(job);
        return list.all();
      });
    },
    coresInUse,
    async stop() {
      isStopped = true;
      await exclusively(async () => {});
    },
  };
}

type OwnedJob = Pick<LocalJob, 'job'>;
const ownerOf = ({ job }: OwnedJob) => job?.owner ?? '';

/**
 * Yields queued jobs so that owners take turns. `served` has the owners in the order of their last turns; those without a
 * turn so far come first. The jobs of one owner stay in the order of the queue.
 */
export function* takeTurns<T extends OwnedJob>(queue: readonly T[], served: ReadonlySet<string>): Generator<T> {
  const positions = new Map([...served].map((owner, position) => [owner, position]));
  const queues = [...Map.groupBy(queue, ownerOf)].sort(
    ([a], [b]) => (positions.get(a) ?? -1) - (positions.get(b) ?? -1),
  );
  for (let round = 0, isEnd = false; !isEnd; round++) {
    isEnd = true;
    for (const [, jobs] of queues) {
      const job = jobs[round];
      if (job === undefined) continue;
      isEnd = false;
      yield job;
    }
  }
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
