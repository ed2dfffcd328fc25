import type { Job } from '@bursar/client';

export type BulkKind = 'cancel' | 'delete';

/** An action on several jobs: those that it changes, and those that it leaves out, with the reason. */
export interface BulkPlan {
  kind: BulkKind;
  jobs: readonly Job[];
  skipped: readonly { reason: string; jobs: readonly Job[] }[];
}

export function planBulkAction(kind: BulkKind, selected: readonly Job[]): BulkPlan {
  const active = selected.filter((job) => !job.terminal_stage);
  const ended = selected.filter((job) => job.terminal_stage);
  if (kind === 'cancel')
    return { kind, jobs: active, skipped: withoutEmpty([{ reason: 'ended already', jobs: ended }]) };
  const deleted = ended.filter(isDeleted);
  return {
    kind,
    jobs: ended.filter((job) => !isDeleted(job)),
    skipped: withoutEmpty([
      { reason: 'not ended yet: cancel first', jobs: active },
      { reason: 'deleted already', jobs: deleted },
    ]),
  };
}

const withoutEmpty = (skipped: BulkPlan['skipped']) => skipped.filter(({ jobs }) => jobs.length > 0);

/** Sites name the stages. Deleting a job twice is harmless. */
const isDeleted = ({ stage }: Job) => /delet/i.test(stage);

export interface BulkFailure {
  job: Job;
  error: unknown;
}

const concurrency = 4;

/** Sends one request for each job, a few at a time. After an abort no further request is sent. Returns the failures. */
export async function runBulkAction(
  jobs: readonly Job[],
  send: (job: Job) => Promise<unknown>,
  { signal, onProgress }: { signal: AbortSignal; onProgress: (doneCount: number) => void },
): Promise<BulkFailure[]> {
  const failures: BulkFailure[] = [];
  let doneCount = 0;
  const queue = jobs.values();
  const work = async () => {
    // All workers take from the same queue.
    for (const job of queue) {
      if (signal.aborted) return;
      await send(job).catch((error: unknown) => failures.push({ job, error }));
      onProgress(++doneCount);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, work));
  return failures;
}
