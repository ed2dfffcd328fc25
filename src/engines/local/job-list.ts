import { join } from 'node:path';
import { systemErrorCode } from '../../domain/errors.ts';
import { examine, type LocalJobState, withdrawDamaged } from './examine.ts';
import { hasRecord, listRecords, readRequest, removeRecord } from './records.ts';
import { coresNeeded } from './slots.ts';

export interface LocalJob {
  jobId: string;
  folder: string;
  sequence: number;
  cores: number;
  standing: LocalJobState;
}

/** The engine's jobs as they were when last looked at. The records are the truth; this is a copy to work with. */
export interface JobList {
  /** Reads all records. One that cannot be read is left out, and told in `trouble`. */
  readAll(): Promise<void>;
  /** Reads the record of one job, which is there. */
  read(jobId: string): Promise<void>;
  /** Looks again. True when the job is not where it was. What cannot be read now changes nothing. */
  refresh(job: LocalJob): Promise<boolean>;
  /** Lets go of a job that is finished, and of its record; does nothing to any other. */
  forget(jobId: string): Promise<void>;
  get(jobId: string): LocalJob | undefined;
  all(): LocalJob[];
  /** In the order of submission. */
  having(kind: LocalJobState['kind']): LocalJob[];
  folderOf(jobId: string): string;
  nextSequence(): number;
}

export interface JobListOptions {
  directory: string;
  cores: number;
  now: () => number;
  onTrouble(trouble: string): void;
}

export function createJobList({ directory, cores, now, onTrouble }: JobListOptions): JobList {
  const jobs = new Map<string, LocalJob>();
  const folderOf = (jobId: string) => join(directory, jobId);
  let lastSequence = 0;

  async function read(jobId: string): Promise<void> {
    const folder = folderOf(jobId);
    const request = await readRequest(folder);
    const isReadable = typeof request === 'object';
    let standing = await examine(folder, jobId, now);
    if (standing.kind === 'queued' && !isReadable) standing = await withdrawDamaged(folder, jobId, now);
    // How many cores a job uses whose request is unreadable, nobody knows: it might be all of them.
    const needed = isReadable ? coresNeeded(request.job, cores) : cores;
    const sequence = isReadable ? request.sequence : 0;
    jobs.set(jobId, { jobId, folder, sequence, cores: needed, standing });
    lastSequence = Math.max(lastSequence, sequence);
  }

  return {
    read,

    async readAll() {
      for (const jobId of await listRecords(directory)) {
        await read(jobId).catch((error) =>
          onTrouble(`the record of job ${jobId} is unreadable (${systemErrorCode(error)})`),
        );
      }
    },

    async refresh(job) {
      if (job.standing.kind === 'finished' || jobs.get(job.jobId) !== job) return false;
      const before = job.standing.kind;
      try {
        job.standing = await examine(job.folder, job.jobId, now);
        // Somebody has removed the record by hand: the engine does not have this job any more.
        if (job.standing.kind === 'queued' && !(await hasRecord(job.folder))) jobs.delete(job.jobId);
      } catch (error) {
        onTrouble(`job ${job.jobId} cannot be looked at (${systemErrorCode(error)})`);
      }
      return job.standing.kind !== before || !jobs.has(job.jobId);
    },

    async forget(jobId) {
      const job = jobs.get(jobId);
      if (job?.standing.kind !== 'finished') return;
      await removeRecord(job.folder);
      jobs.delete(jobId);
    },

    get: (jobId) => jobs.get(jobId),
    all: () => [...jobs.values()],
    having: (kind) =>
      [...jobs.values()].filter((job) => job.standing.kind === kind).sort((a, b) => a.sequence - b.sequence),
    folderOf,
    nextSequence: () => ++lastSequence,
  };
}
