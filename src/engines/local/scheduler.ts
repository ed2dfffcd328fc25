import pLimit from 'p-limit';
import type { JobLimits } from './ending.ts';
import type { JobList, LocalJob } from './job-list.ts';
import { whatFits } from './slots.ts';
import { startSupervisor } from './start-supervisor.ts';

export interface SchedulerOptions {
  list: JobList;
  cores: number;
  limits: JobLimits;
  cacheFolder: string;
  onChange(): void;
  onTrouble(trouble: string): void;
}

/** Starts queued jobs when there are cores for them. */
export interface Scheduler {
  /** Does some work on the list of jobs while nobody else does, and then starts what fits. */
  withList<T>(work: () => Promise<T>): Promise<T>;
  /** Looks at one job, in which something has probably changed. */
  lookAt(job: LocalJob): void;
  /** Looks at all jobs: supervisors of an earlier life end without telling, or start late. */
  lookAtAll(): Promise<LocalJob[]>;
  coresInUse(): number;
  /** After this nothing is started, and nothing is under way. */
  stop(): Promise<void>;
}

export function createScheduler({
  list,
  cores,
  limits,
  cacheFolder,
  onChange,
  onTrouble,
}: SchedulerOptions): Scheduler {
  /** Jobs with a supervisor of ours that is not known to have claimed them, nor to have ended. */
  const starting = new Set<string>();
  const exclusive = pLimit(1);
  let isStopped = false;

  function coresInUse(): number {
    const beingStarted = list.having('queued').filter(({ jobId }) => starting.has(jobId));
    return [...list.having('running'), ...beingStarted].reduce((sum, job) => sum + job.cores, 0);
  }

  function startWhatFits(): void {
    if (isStopped) return;
    const queue = list.having('queued').filter(({ jobId }) => !starting.has(jobId));
    for (const job of whatFits(queue, cores - coresInUse())) start(job);
  }

  function start(job: LocalJob): void {
    starting.add(job.jobId);
    startSupervisor({
      folder: job.folder,
      cacheFolder,
      limits,
      onClaim: () => lookAt(job),
      onGone: (failure) => {
        if (failure !== null) onTrouble(`job ${job.jobId}: ${failure}`);
        // In its turn: until it has been looked at, the job keeps its cores.
        lookAt(job, () => starting.delete(job.jobId));
      },
    });
  }

  function lookAt(job: LocalJob, before = () => {}): void {
    if (isStopped) return;
    void exclusive(async () => {
      before();
      // A job that is still queued could not be started. It is tried again with the next look at all, not at once.
      if (!(await list.refresh(job))) return;
      startWhatFits();
      onChange();
    });
  }

  function withList<T>(work: () => Promise<T>): Promise<T> {
    return exclusive(async () => {
      const result = await work();
      startWhatFits();
      return result;
    });
  }

  return {
    withList,
    lookAt: (job) => lookAt(job),
    async lookAtAll() {
      return withList(async () => {
        for (const job of list.all()) await list.refresh(job);
        return list.all();
      });
    },
    coresInUse,
    async stop() {
      isStopped = true;
      await exclusive(async () => {});
    },
  };
}
