import type { FileLimit, JobEnd } from './job.ts';

/** The files of a job, its logs included. */
export interface WorkspaceUsage {
  bytes: number;
  /** The number of files, folders and links. */
  entries: number;
}

/** A running job, its files, and what it may use. */
export interface MeasuredJob {
  jobId: string;
  usage: WorkspaceUsage;
  /** The space that the job holds: that of its unpacked zip. */
  heldBytes: number;
  /** The ids of the accounts that its space is charged to: the pool of the project and the cap of the user. */
  accounts: readonly number[];
}

/** A quota that is full must not end jobs that only write a log. */
const spaceToleranceBytes = 10_000_000;

/**
 * Returns the running jobs that exceed a limit. The space of a job is what it holds plus what its quota has left, which
 * all running jobs of the quota share: the jobs that need most of it exceed it first. `available` maps accounts to what
 * they have left.
 */
export function findExceededLimits(
  jobs: readonly MeasuredJob[],
  available: ReadonlyMap<number, number>,
  maxEntries: number,
): Map<string, FileLimit> {
  const exceeded = new Map<string, FileLimit>();
  const left = new Map(available);
  const unheldBytes = ({ usage, heldBytes }: MeasuredJob) => Math.max(0, usage.bytes - heldBytes);
  for (const job of jobs.toSorted((a, b) => unheldBytes(a) - unheldBytes(b))) {
    const bytes = unheldBytes(job);
    const spaceLeft = Math.max(0, Math.min(...job.accounts.map((account) => left.get(account) ?? 0)));
    if (job.usage.entries > maxEntries) exceeded.set(job.jobId, 'file_limit');
    else if (bytes > spaceLeft + spaceToleranceBytes) exceeded.set(job.jobId, 'space_limit');
    else for (const account of job.accounts) left.set(account, (left.get(account) ?? 0) - bytes);
  }
  return exceeded;
}

/** The end of a job that leaves too many files. What ended the job by force is the better reason. */
export function applyFileLimit<End extends JobEnd>(end: End, { entries }: WorkspaceUsage, maxEntries: number): End {
  if (entries <= maxEntries || (end.outcome !== 'succeeded' && end.outcome !== 'failed')) return end;
  const reason = `it left ${entries} files and folders, and the limit is ${maxEntries} (${end.reason})`;
  return { ...end, outcome: 'output_exceeded', reason };
}
