import { join } from 'node:path';
import { errnoCode } from '../../domain/errors.ts';
import type { EngineJob } from '../engine.ts';
import { createStateReader, type LocalJobState, type StateReaderOptions } from './job-state.ts';
import { hasRequest, listRecordedJobs, readRequest, removeJobFolder } from './records.ts';

export interface LocalJob {
  jobId: string;
  folder: string;
  sequence: number;
  cores: number;
  /** Null if the request record cannot be read. */
  job: EngineJob | null;
  state: LocalJobState;
}

/** An in-memory copy of the job records, as of the last refresh. */
export interface JobList {
  /** Loads all records. Skips a record that cannot be read, and reports it to `onError`. */
  loadAll(): Promise<void>;
  /** Loads the record of one job, which must exist. */
  load(jobId: string): Promise<void>;
  /** Reads the state of a job again. Returns true if it changed. A record that cannot be read changes nothing. */
  refresh(job: LocalJob): Promise<boolean>;
  /** Removes a finished job and its record. Has no effect on any other job. */
  forget(jobId: string): Promise<void>;
  get(jobId: string): LocalJob | undefined;
  all(): LocalJob[];
  /** Lists jobs in the order of submission. */
  listByState(kind: LocalJobState['kind']): LocalJob[];
  folderFor(jobId: string): string;
  nextSequence(): number;
}

export interface JobListOptions extends StateReaderOptions {
  directory: string;
  totalCores: number;
  onError(message: string): void;
}

export function createJobList({ directory, totalCores, onError, ...readerOptions }: JobListOptions): JobList {
  const { readJobState, endDamagedRequest } = createStateReader(readerOptions);
  const jobs = new Map<string, LocalJob>();
  const folderFor = (jobId: string) => join(directory, jobId);
  let lastSequence = 0;

  async function load(jobId: string): Promise<void> {
    const folder = folderFor(jobId);
    const request = await readRequest(folder);
    const isReadable = typeof request === 'object';
    const job = isReadable ? request.job : null;
    let state = await readJobState({ folder, jobId, job });
    if (state.kind === 'queued' && !isReadable) state = await endDamagedRequest({ folder, jobId, job });
    // A job with an unreadable request may use any number of cores: assume all of them.
    const usedCores = job === null ? totalCores : coresNeeded(job, totalCores);
    const sequence = isReadable ? request.sequence : 0;
    jobs.set(jobId, { jobId, folder, sequence, cores: usedCores, job, state });
    lastSequence = Math.max(lastSequence, sequence);
  }

  return {
    load,

    async loadAll() {
      for (const jobId of await listRecordedJobs(directory)) {
        await load(jobId).catch((error) => onError(`the record of job ${jobId} is unreadable (${errnoCode(error)})`));
      }
    },

    async refresh(job) {
      if (job.state.kind === 'finished' || jobs.get(job.jobId) !== job) return false;
      const previousKind = job.state.kind;
      try {
        job.state = await readJobState(job);
        // The record was removed by hand: the engine no longer has this job.
        if (job.state.kind === 'queued' && !(await hasRequest(job.folder))) jobs.delete(job.jobId);
      } catch (error) {
        onError(`job ${job.jobId} cannot be read (${errnoCode(error)})`);
      }
      return job.state.kind !== previousKind || !jobs.has(job.jobId);
    },

    async forget(jobId) {
      const job = jobs.get(jobId);
      if (job?.state.kind !== 'finished') return;
      await removeJobFolder(job.folder);
      jobs.delete(jobId);
    },

    get: (jobId) => jobs.get(jobId),
    all: () => [...jobs.values()],
    listByState: (kind) =>
      [...jobs.values()].filter((job) => job.state.kind === kind).sort((a, b) => a.sequence - b.sequence),
    folderFor,
    nextSequence: () => ++lastSequence,
  };
}

/** A job that requests more cores than exist gets all of them, and runs alone. */
export function coresNeeded(job: Pick<EngineJob, 'nodes' | 'coresPerNode'>, totalCores: number): number {
  return Math.min(job.nodes * job.coresPerNode, totalCores);
}
