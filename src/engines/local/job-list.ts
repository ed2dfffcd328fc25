import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { errnoCode } from '../../domain/errors.ts';
import type { EngineJob } from '../engine.ts';
import { createJobQueue, type JobQueue } from './job-queue.ts';
import { createStateReader, type LocalJobState, type StateReaderOptions } from './job-state.ts';
import { hasRequest, isOffered, listRecordedJobs, readRequest, removeJobFolder } from './records.ts';

export interface LocalJob {
  jobId: string;
  folder: string;
  sequence: number;
  cores: number;
  /** Null if the request record cannot be read. */
  job: EngineJob | null;
  state: LocalJobState;
}

export type JobList = ReturnType<typeof createJobList>;

export interface JobListOptions extends StateReaderOptions {
  directory: string;
  totalCores: number;
  onError(message: string): void;
}

/** The number of jobs that are read at a time although nothing should have changed them. */
const maxVerified = 20;

/**
 * An in-memory copy of the job records, as of the last refresh. Collections by state make the cost of a poll independent of
 * the number of jobs that wait.
 */
export function createJobList({ directory, totalCores, onError, ...readerOptions }: JobListOptions) {
  const { readJobState, endDamagedRequest } = createStateReader(readerOptions);
  const jobs = new Map<string, LocalJob>();
  const queued = createJobQueue<LocalJob>();
  const running = new Set<LocalJob>();
  const watched = new Set<LocalJob>();
  let unverified = jobs.values();
  const folderFor = (jobId: string) => join(directory, jobId);
  let lastSequence = 0;

  /** Moves a job to the collection of its present state. */
  function index(job: LocalJob): void {
    queued.delete(job);
    running.delete(job);
    if (jobs.get(job.jobId) === job) {
      if (job.state.kind === 'queued') queued.add(job);
      if (job.state.kind === 'running') running.add(job);
    }
    if (!queued.has(job)) watched.delete(job);
  }

  /** Call this before another process may claim a queued job, or this one withdraws it: every poll then refreshes it. */
  function watch(job: LocalJob): void {
    if (queued.has(job)) watched.add(job);
  }

  async function read(jobId: string): Promise<LocalJob> {
    const folder = folderFor(jobId);
    const request = readRequest(folder);
    const isReadable = typeof request === 'object';
    const job = isReadable ? request.job : null;
    let state = await readJobState({ folder, jobId, job });
    if (state.kind === 'queued' && !isReadable) state = await endDamagedRequest({ folder, jobId, job });
    // A job with an unreadable request may use any number of cores: assume all of them.
    const usedCores = job === null ? totalCores : coresNeeded(job, totalCores);
    const sequence = isReadable ? request.sequence : 0;
    return { jobId, folder, sequence, cores: usedCores, job, state };
  }

  function add(job: LocalJob): void {
    jobs.set(job.jobId, job);
    lastSequence = Math.max(lastSequence, job.sequence);
    index(job);
  }

  return {
    /** Loads the record of one job, which must exist. */
    async load(jobId: string): Promise<void> {
      add(await read(jobId));
    },

    /** Loads all records. Skips a record that cannot be read, and reports it to `onError`. */
    async loadAll(): Promise<void> {
      const loaded: LocalJob[] = [];
      for (const jobId of await listRecordedJobs(directory)) {
        // There may be thousands, and reading them is synchronous.
        await setImmediate();
        try {
          loaded.push(await read(jobId));
        } catch (error) {
          onError(`the record of job ${jobId} is unreadable (${errnoCode(error)})`);
        }
      }
      for (const job of loaded.sort((a, b) => a.sequence - b.sequence)) {
        add(job);
        // An earlier process may have started a supervisor that has not claimed the job yet.
        if (queued.has(job) && isOffered(job.folder)) watch(job);
      }
    },

    /** Reads the state of a job again. Returns true if it changed. A record that cannot be read changes nothing. */
    async refresh(job: LocalJob): Promise<boolean> {
      if (job.state.kind === 'finished' || jobs.get(job.jobId) !== job) return false;
      const previousState = job.state;
      try {
        job.state = await readJobState(job);
        // The record was removed by hand: the engine no longer has this job.
        if (job.state.kind === 'queued' && !hasRequest(job.folder)) jobs.delete(job.jobId);
      } catch (error) {
        onError(`job ${job.jobId} cannot be read (${errnoCode(error)})`);
        watch(job);
      }
      if (job.state.kind === previousState.kind && jobs.has(job.jobId)) return false;
      index(job);
      return true;
    },

    watch,

    /** Returns the jobs that run and those that are watched. */
    changeable: () => [...running, ...watched],

    /**
     * Returns a few of all jobs, in turn. Nobody should change those that are not `changeable`, but an operator may remove their
     * records, and a process that does not know yet that its lease is lost may start them.
     */
    nextToVerify(): LocalJob[] {
      const selected = [...unverified.take(maxVerified)];
      if (selected.length < maxVerified) unverified = jobs.values();
      return selected;
    },

    /** Removes a finished job and its record. Has no effect on any other job. */
    async forget(jobId: string): Promise<void> {
      const job = jobs.get(jobId);
      if (job?.state.kind !== 'finished') return;
      jobs.delete(jobId);
      await removeJobFolder(job.folder).catch((error) => {
        jobs.set(jobId, job);
        throw error;
      });
    },

    get: (jobId: string) => jobs.get(jobId),
    all: () => [...jobs.values()],
    queued: queued as Omit<JobQueue<LocalJob>, 'add' | 'delete'>,
    running: running as ReadonlySet<LocalJob>,
    folderFor,
    nextSequence: () => ++lastSequence,
  };
}

/** A job that requests more cores than exist gets all of them, and runs alone. */
export function coresNeeded(job: Pick<EngineJob, 'nodes' | 'coresPerNode'>, totalCores: number): number {
  return Math.min(job.nodes * job.coresPerNode, totalCores);
}
