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
  /** The size of its files beyond the hold when that was last within its quota. */
  fittedBytes: number;
  /** The ids of the accounts that its space is charged to: the pool of the project and the cap of the user. */
  accounts: readonly number[];
}

/** A quota that is full must not end jobs that only write a log. */
const spaceToleranceBytes = 10_000_000;

export interface FileLimitCheck {
  exceeded: Map<string, FileLimit>;
  /** The `fittedBytes` of the jobs at the next check. */
  fittedBytes: Map<string, number>;
}

/**
 * Finds the running jobs that exceed a limit. The space of a job is what it holds plus what its quota has left, which all
 * running jobs of the quota share. The space that a job had while there was enough stays its own: a job is ended for what
 * it has added since, never because another one has overrun the quota. Of the jobs that have grown, those that have grown
 * most exceed it first. `available` maps accounts to what they have left.
 */
export function checkFileLimits(
  jobs: readonly MeasuredJob[],
  available: ReadonlyMap<number, number>,
  maxEntries: number,
): FileLimitCheck {
  const exceeded = new Map<string, FileLimit>();
  const fittedBytes = new Map<string, number>();
  const left = new Map(available);
  const take = (accounts: readonly number[], bytes: number) => {
    for (const account of accounts) left.set(account, (left.get(account) ?? 0) - bytes);
  };
  const grown = jobs.map((job) => {
    const bytes = Math.max(0, job.usage.bytes - job.heldBytes);
    const fitted = Math.min(bytes, job.fittedBytes);
    take(job.accounts, fitted);
    return { ...job, fitted, growth: bytes - fitted };
  });
  for (const { jobId, usage, accounts, fitted, growth } of grown.sort((a, b) => a.growth - b.growth)) {
    const spaceLeft = Math.max(0, Math.min(...accounts.map((account) => left.get(account) ?? 0)));
    if (usage.entries > maxEntries) exceeded.set(jobId, 'file_limit');
    else if (growth > spaceLeft + spaceToleranceBytes) exceeded.set(jobId, 'space_limit');
    else take(accounts, growth);
    fittedBytes.set(jobId, growth > spaceLeft ? fitted : fitted + growth);
  }
  return { exceeded, fittedBytes };
}

/** The end of a job that leaves too many files. What ended the job by force is the better reason. */
export function applyFileLimit<End extends JobEnd>(end: End, { entries }: WorkspaceUsage, maxEntries: number): End {
  if (entries <= maxEntries || (end.outcome !== 'succeeded' && end.outcome !== 'failed')) return end;
  const reason = `it left ${entries} files and folders, and the limit is ${maxEntries} (${end.reason})`;
  return { ...end, outcome: 'output_exceeded', reason };
}
