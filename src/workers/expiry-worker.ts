import { toIsoTime } from '../contract/fields.ts';
import { toJobReference } from '../contract/job.ts';
import { msPerDay, msPerMinute } from '../domain/units.ts';
import type { Db } from '../store/database/handle.ts';
import { deleteTestDeliveries } from '../store/events/deliveries.ts';
import { expireEvents, insertEvent, insertEvents } from '../store/events/events.ts';
import { listMembers } from '../store/identity/members.ts';
import { getProject, listProjects } from '../store/identity/projects.ts';
import { deleteExpiredSignIns } from '../store/identity/sign-ins.ts';
import { listTokensToNotify, markTokenNotified } from '../store/identity/tokens.ts';
import { deleteOldKeys } from '../store/jobs/idempotency-keys.ts';
import { clearExpiries, listExpiredJobs, listJobsToNotify, setExpiry } from '../store/jobs/job-retention.ts';
import type { JobRecord } from '../store/jobs/jobs.ts';
import { expireEndedPeriods } from '../store/ledger/grants.ts';
import { listPeriodsToNotify, markPeriodNotified } from '../store/ledger/periods.ts';
import type { HeldLease } from './hold-lease.ts';
import { type Logger, type Loop, startLoop } from './loop.ts';

const maxJobsPerQuery = 1000;
const expiredSignInMs = 10 * msPerMinute;

export interface ExpiryWorkerDeps {
  lease: HeldLease;
  /** For reading only. Writes go through `HeldLease.transaction`. */
  db: Db;
  /** People are notified this many days before the end of a period, a token or the files of a job. */
  noticeDays: number;
  eventRetentionDays: number;
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
 * Ends what has a time limit: the grants of periods, events, idempotency keys, sessions and sign-ins, and the files of jobs that
 * ended long ago. Notifies people in time of the end of periods, tokens and files. Work that is interrupted is done in a later
 * iteration, or after a restart.
 */
export function startExpiryWorker(deps: ExpiryWorkerDeps): Loop {
  const tasks = [expireGrants, deleteOldEvents, expireCredentials, expireFiles];
  return startLoop(async (signal) => {
    for (const task of tasks) {
      try {
        await task(deps, signal);
      } catch (error) {
        deps.log.error({ err: error }, 'expiry worker failed, will retry');
      }
    }
    return deps.intervalMs;
  });
}

async function expireGrants(deps: ExpiryWorkerDeps): Promise<void> {
  const { lease, now, log } = deps;
  await notifyPeriodEnds(deps);
  const expired = await lease.transaction((tx) => expireEndedPeriods(tx, now()));
  if (expired > 0) log.info({ accounts: expired }, 'grants expired');
}

/** Notifies every member once per period: the period is marked in the transaction that writes the events. */
async function notifyPeriodEnds({ lease, db, noticeDays, now }: ExpiryWorkerDeps): Promise<void> {
  const at = now();
  for (const period of await listPeriodsToNotify(db, at, at + noticeDays * msPerDay)) {
    await lease.transaction(async (tx) => {
      if (!(await markPeriodNotified(tx, period.id, at))) return;
      const project = await getProject(tx, period.projectId);
      const members = (await listMembers(tx, period.projectId)).filter((member) => member.status === 'active');
      const endsAt = toIsoTime(period.endsAt ?? at);
      const data = { hpc: project.hpc, project_name: project.name, resource: 'time', ends_at: endsAt };
      const userIds = members.map((member) => member.userId);
      await insertEvents(tx, userIds, { job: null, kind: 'quota.expiring', data, at });
    });
  }
}

async function deleteOldEvents({ lease, eventRetentionDays, now }: ExpiryWorkerDeps): Promise<void> {
  const before = now() - eventRetentionDays * msPerDay;
  await lease.transaction((tx) => deleteTestDeliveries(tx, before));
  while (await lease.transaction((tx) => expireEvents(tx, before)));
}

async function expireCredentials(deps: ExpiryWorkerDeps): Promise<void> {
  const { lease, now } = deps;
  await lease.transaction((tx) => deleteOldKeys(tx, now() - msPerDay));
  await notifyTokenOwners(deps);
  // Later, so that a program that polls is told that its request has expired, and not that it is unknown.
  await lease.transaction((tx) => deleteExpiredSignIns(tx, now() - expiredSignInMs));
}

interface TokenNoticeDeps extends Pick<ExpiryWorkerDeps, 'db' | 'noticeDays' | 'publish' | 'now'> {
  lease: Pick<HeldLease, 'transaction'>;
}

/** Notifies the owners of tokens that expire soon, once per token: it is marked in the transaction that writes the event. */
export async function notifyTokenOwners({ lease, db, noticeDays, publish, now }: TokenNoticeDeps): Promise<void> {
  const at = now();
  for (const { id, userId, name, expiresAt } of await listTokensToNotify(db, at, noticeDays * msPerDay)) {
    await lease.transaction(async (tx) => {
      if (!(await markTokenNotified(tx, id, at))) return;
      const data = { token_id: id, token_name: name, expires_at: toIsoTime(expiresAt) };
      await insertEvent(tx, { userId, job: null, kind: 'token.expiring', data, at });
    });
    publish(userId);
  }
}

async function expireFiles(deps: ExpiryWorkerDeps, signal: AbortSignal): Promise<void> {
  const { lease, db, retentionDays, deleteJob, publish, log } = deps;
  for (const { id, hpc, name } of await listProjects(db)) {
    const days = retentionDays(hpc, name);
    if (days === undefined) {
      await lease.transaction((tx) => clearExpiries(tx, id));
      continue;
    }
    for (const job of await notifyAndListExpired(deps, id, days)) {
      if (signal.aborted) return;
      await deleteJob(job);
      publish(job.owner);
      log.info({ hpc, jobId: job.jobId }, 'job files deleted after their retention period');
    }
  }
}

/** Notifies owners whose files will be deleted soon. Returns the jobs whose files are to be deleted now. */
async function notifyAndListExpired(deps: ExpiryWorkerDeps, projectId: number, days: number): Promise<JobRecord[]> {
  const { db, noticeDays, publish, now } = deps;
  const [retentionMs, noticeMs] = [days * msPerDay, noticeDays * msPerDay];
  for (const job of await listJobsToNotify(db, projectId, now() - retentionMs + noticeMs, maxJobsPerQuery)) {
    await notifyOwner(deps, job, retentionMs, noticeMs);
    publish(job.owner);
  }
  return await listExpiredJobs(db, projectId, { now: now(), endedBefore: now() - retentionMs }, maxJobsPerQuery);
}

/** Stores the expiry date with the event: the files are deleted no earlier, and the owner is notified only once. */
async function notifyOwner(
  { lease, now }: ExpiryWorkerDeps,
  job: JobRecord,
  retentionMs: number,
  noticeMs: number,
): Promise<void> {
  const at = now();
  const endedAt = job.status.state === 'ended' ? job.status.endedAt : at;
  const expiresAt = Math.max(endedAt + retentionMs, at + noticeMs);
  await lease.transaction(async (tx) => {
    if (!(await setExpiry(tx, job, expiresAt))) return;
    const data = { ...toJobReference(job), deletes_at: toIsoTime(expiresAt) };
    const { publicJson: jobJson } = job;
    await insertEvent(tx, { userId: job.owner, job: job.id, jobJson, kind: 'job.expiring', data, at });
  });
}
