import { toJobReference } from '../contract/event.ts';
import { msPerDay } from '../domain/units.ts';
import type { Db } from '../store/database/tables.ts';
import { inTransaction } from '../store/database/transaction.ts';
import { insertEvent } from '../store/events/events.ts';
import { listProjects } from '../store/identity/projects.ts';
import { deleteOldKeys } from '../store/jobs/idempotency-keys.ts';
import { expiredJobs, jobsToNotify, setExpiry, withdrawExpiries } from '../store/jobs/job-retention.ts';
import type { JobRecord } from '../store/jobs/jobs.ts';
import type { Log } from './log.ts';
import { type Loop, startLoop } from './loop.ts';

const mostInRound = 1000;

export interface RetentionWorkerDeps {
  db: Db;
  /** How long the files of finished jobs of a project are kept; undefined for ever. */
  retentionDays(hpc: string, project: string): number | undefined;
  noticeDays: number;
  everyMs: number;
  /** What the owner of a finished job could do: its files go, and its space is free. Harmless to repeat. */
  deleteJob(job: JobRecord): Promise<unknown>;
  /** Called when there is something new for a user. */
  announce(userId: string): void;
  now(): number;
  log: Log;
}

/**
 * Puts away what nobody has a use for any more: the files of jobs that ended long ago, of which their owners were told
 * in time, and old idempotency keys. What is interrupted is done in a later round, or in a later life.
 */
export function startRetentionWorker(deps: RetentionWorkerDeps): Loop {
  const { db, retentionDays, everyMs, now, log } = deps;
  /** Jobs that are deleted in the books, and whose system could not be reached to remove their files. */
  const left = new Map<string, JobRecord>();
  return startLoop(async (signal) => {
    try {
      await deleteOldKeys(db, now() - msPerDay);
      await removeAll(deps, left, [...left.values()], signal);
      for (const { id, hpc, name } of await listProjects(db)) {
        const days = retentionDays(hpc, name);
        if (days === undefined) await withdrawExpiries(db, id);
        else await removeAll(deps, left, await announceAndExpire(deps, id, days), signal);
      }
    } catch (error) {
      log.error({ err: error }, 'tidying up failed');
    }
    return everyMs;
  });
}

/** Tells the owners whose files are to go, and answers with the jobs whose files go now. */
async function announceAndExpire(deps: RetentionWorkerDeps, projectId: number, days: number): Promise<JobRecord[]> {
  const { db, noticeDays, now } = deps;
  const [keptMs, noticeMs] = [days * msPerDay, noticeDays * msPerDay];
  for (const job of await jobsToNotify(db, projectId, now() - keptMs + noticeMs, mostInRound)) {
    await announceExpiryOf(db, job, { keptMs, noticeMs, now: now() });
    deps.announce(job.owner);
  }
  return await expiredJobs(db, projectId, { now: now(), endedBefore: now() - keptMs }, mostInRound);
}

/** The date that the owner is told stands in the job: the files go no sooner, and nobody is told twice. */
async function announceExpiryOf(
  db: Db,
  job: JobRecord,
  { keptMs, noticeMs, now }: { keptMs: number; noticeMs: number; now: number },
): Promise<void> {
  const endedAt = job.status.state === 'ended' ? job.status.endedAt : now;
  const expiresAt = Math.max(endedAt + keptMs, now + noticeMs);
  await inTransaction(db, async (tx) => {
    if (!(await setExpiry(tx, job, expiresAt))) return;
    const data = { ...toJobReference(job), deletes_at: new Date(expiresAt).toISOString() };
    const { publicJson: jobJson } = job;
    await insertEvent(tx, { userId: job.owner, job: job.id, jobJson, kind: 'job.expiring', data, at: now });
  });
}

/** Stops at the first failure: what holds for one job holds for the others of a system that is out of reach. */
async function removeAll(
  { deleteJob, announce, log }: RetentionWorkerDeps,
  left: Map<string, JobRecord>,
  jobs: readonly JobRecord[],
  signal: AbortSignal,
): Promise<void> {
  for (const job of jobs) {
    if (signal.aborted) return;
    const { jobId, project } = job;
    left.delete(jobId);
    try {
      await deleteJob(job);
      announce(job.owner);
      log.info({ hpc: project.hpc, jobId }, 'files deleted: the time for which they are kept is over');
    } catch (error) {
      left.set(jobId, job);
      log.warn({ err: error, hpc: project.hpc, jobId }, 'files not deleted yet');
      return;
    }
  }
}
