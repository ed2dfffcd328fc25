import type { FileLimit, JobEnd } from './job.ts';

/** The files of a job, its logs included. */
export interface WorkspaceUsage {
  bytes: number;
  /** The number of files, folders and links. */
  entries: number;
}

/** File systems allocate whole blocks, and some of them in advance. That much more than its size is not charged. */
export const maxUnchargedBytes = 1_000_000;

/** The bytes that a file is charged: its size, or its blocks of 512 bytes if a job has allocated far more than the size. */
export function toChargedBytes(size: number, blocks: number): number {
  return blocks * 512 > size + maxUnchargedBytes ? blocks * 512 : size;
}

/** A running job, its files, and what it may use. */
export interface MeasuredJob {
  jobId: string;
  usage: WorkspaceUsage;
  /** The space that the job holds: that of its unpacked zip. */
  heldBytes: number;
  /** The size of its files beyond the hold, at the last measurement at which that was within its quota. */
  withinQuotaBytes: number;
  /** The ids of the accounts that its space is charged to: the pool of the project and the cap of the user. */
  accounts: readonly number[];
}

/** A quota that is full must not end jobs that only write a log. */
const spaceToleranceBytes = 10_000_000;

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
) {
  const exceeded = new Map<string, FileLimit>();
  /** The `withinQuotaBytes` of the jobs at the next check. */
  const withinQuotaBytes = new Map<string, number>();
  const left = new Map(available);
  const take = (accounts: readonly number[], bytes: number) => {
    for (const account of accounts) left.set(account, (left.get(account) ?? 0) - bytes);
  };
  const grown = jobs.map((job) => {
    const bytes = Math.max(0, job.usage.bytes - job.heldBytes);
    const withinQuota = Math.min(bytes, job.withinQuotaBytes);
    take(job.accounts, withinQuota);
    return { ...job, withinQuota, growth: bytes - withinQuota };
  });
  for (const { jobId, usage, accounts, withinQuota, growth } of grown.sort((a, b) => a.growth - b.growth)) {
    const spaceLeft = Math.max(0, Math.min(...accounts.map((account) => left.get(account) ?? 0)));
    if (usage.entries > maxEntries) exceeded.set(jobId, 'file_limit');
    else if (growth > spaceLeft + spaceToleranceBytes) exceeded.set(jobId, 'space_limit');
    else take(accounts, growth);
    withinQuotaBytes.set(jobId, growth > spaceLeft ? withinQuota : withinQuota + growth);
  }
  return { exceeded, withinQuotaBytes };
}

/** The end of a job that leaves too many files. What ended the job by force is the better reason. */
export function applyFileLimit<End extends JobEnd>(end: End, { entries }: WorkspaceUsage, maxEntries: number): End {
  if (entries <= maxEntries || (end.outcome !== 'succeeded' && end.outcome !== 'failed')) return end;
  const reason = `it left ${entries} files and folders, and the limit is ${maxEntries} (${end.reason})`;
  return { ...end, outcome: 'output_exceeded', reason };
}
