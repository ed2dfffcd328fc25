import { toJobReference } from '../contract/event.ts';
import { toIsoTime } from '../contract/fields.ts';
import { msPerDay, msPerMinute } from '../domain/units.ts';
import type { Db } from '../store/database/handle.ts';
import { insertEvent } from '../store/events/events.ts';
import { listProjects } from '../store/identity/projects.ts';
import { deleteExpiredSignIns } from '../store/identity/sign-ins.ts';
import { deleteOldKeys } from '../store/jobs/idempotency-keys.ts';
import { clearExpiries, listExpiredJobs, listJobsToNotify, setExpiry } from '../store/jobs/job-retention.ts';
import type { JobRecord } from '../store/jobs/jobs.ts';
import type { HeldLease } from './hold-lease.ts';
import { type Logger, type Loop, startLoop } from './loop.ts';
import { notifyTokenOwners, type TokenNoticeDeps } from './token-notices.ts';

const maxJobsPerQuery = 1000;
const expiredSignInMs = 10 * msPerMinute;

export interface RetentionWorkerDeps extends TokenNoticeDeps {
  lease: HeldLease;
  /** For reading only. Writes go through `HeldLease.transaction`. */
  db: Db;
  /** Days for which the files of finished jobs of a project are kept; undefined means for ever. */
  retentionDays(hpc: string, project: string): number | undefined;
  intervalMs: number;
  /** Deletes a finished job in the database and has its files removed, like a DELETE request of its owner. Idempotent. */
  deleteJob(job: JobRecord): Promise<unknown>;
  /** Called after a commit that concerns a user. */
  publish(userId: string): void;
  now(): number;
  log: Logger;
}

/**
 * Deletes the files of jobs that ended long ago, after notifying their owners in time, old idempotency keys, and ended
 * sessions and sign-ins. Notifies the owners of tokens that expire soon. Work that is interrupted is done in a later
 * iteration, or after a restart.
 */
export function startRetentionWorker(deps: RetentionWorkerDeps): Loop {
  const { lease, db, retentionDays, intervalMs, now, log } = deps;
  return startLoop(async (signal) => {
    try {
      await lease.transaction((tx) => deleteOldKeys(tx, now() - msPerDay));
      await notifyTokenOwners(deps);
      // Later, so that a program that polls is told that its request has expired, and not that it is unknown.
      await lease.transaction((tx) => deleteExpiredSignIns(tx, now() - expiredSignInMs));
      for (const { id, hpc, name } of await listProjects(db)) {
        const days = retentionDays(hpc, name);
        if (days === undefined) await lease.transaction((tx) => clearExpiries(tx, id));
        else await deleteJobs(deps, await notifyAndListExpired(deps, id, days), signal);
      }
    } catch (error) {
      log.error({ err: error }, 'retention worker failed, will retry');
    }
    return intervalMs;
  });
}

/** Notifies owners whose files will be deleted soon. Returns the jobs whose files are to be deleted now. */
async function notifyAndListExpired(deps: RetentionWorkerDeps, projectId: number, days: number): Promise<JobRecord[]> {
  const { lease, db, noticeDays, now } = deps;
  const [retentionMs, noticeMs] = [days * msPerDay, noticeDays * msPerDay];
  for (const job of await listJobsToNotify(db, projectId, now() - retentionMs + noticeMs, maxJobsPerQuery)) {
    await notifyOwner(lease, job, { retentionMs, noticeMs, now: now() });
    deps.publish(job.owner);
  }
  return await listExpiredJobs(db, projectId, { now: now(), endedBefore: now() - retentionMs }, maxJobsPerQuery);
}

/** Stores the expiry date with the event: the files are deleted no earlier, and the owner is notified only once. */
async function notifyOwner(
  lease: HeldLease,
  job: JobRecord,
  { retentionMs, noticeMs, now }: { retentionMs: number; noticeMs: number; now: number },
): Promise<void> {
  const endedAt = job.status.state === 'ended' ? job.status.endedAt : now;
  const expiresAt = Math.max(endedAt + retentionMs, now + noticeMs);
  await lease.transaction(async (tx) => {
    if (!(await setExpiry(tx, job, expiresAt))) return;
    const data = { ...toJobReference(job), deletes_at: toIsoTime(expiresAt) };
    const { publicJson: jobJson } = job;
    await insertEvent(tx, { userId: job.owner, job: job.id, jobJson, kind: 'job.expiring', data, at: now });
  });
}

async function deleteJobs(
  { deleteJob, publish, log }: RetentionWorkerDeps,
  jobs: readonly JobRecord[],
  signal: AbortSignal,
): Promise<void> {
  for (const job of jobs) {
    if (signal.aborted) return;
    await deleteJob(job);
    publish(job.owner);
    log.info({ hpc: job.project.hpc, jobId: job.jobId }, 'job files deleted after their retention period');
  }
}
