import { msPerHour } from '../domain/units.ts';
import { deleteFiles } from '../services/jobs/end-job.ts';
import { createSender } from '../webhooks/send.ts';
import { type HeldLease, holdLease } from '../workers/hold-lease.ts';
import { type PeriodWorkerDeps, startPeriodWorker } from '../workers/period-worker.ts';
import { type RetentionWorkerDeps, startRetentionWorker } from '../workers/retention-worker.ts';
import { startSystemWorkers } from '../workers/system-workers.ts';
import { startWebhookWorker, type WebhookWorkerDeps } from '../workers/webhook-worker.ts';
import { staleMs } from './database.ts';
import type { Dependencies } from './dependencies.ts';

/** Starts all background work: dispatching and watching jobs, accounting periods, webhook deliveries, file retention. */
export async function startWorker(parts: Dependencies): Promise<{ stop(): Promise<void> }> {
  const { books, db, spool, zipLimits, sites, announcements, work, holder, metrics, now, log } = parts;
  const common = { db, spool, zipLimits, staleMs, metrics, publish: announcements.publish, now, log };
  const leaseDeps = { db, holder, leaseMs: books.leaseMs, log };

  const systemWorkers = await startSystemWorkers(
    sites.map((site) => ({ ...common, ...site })),
    leaseDeps,
  );
  work.subscribe(systemWorkers.wake);
  const periodWorker = holdLease(leaseDeps, 'calendar', async (lease) => startPeriodWorker(periodDeps(parts, lease)));
  const retentionWorker = holdLease(leaseDeps, 'tidying', async () => startRetentionWorker(retentionDeps(parts)));
  const webhookWorker = startWebhookWorker(webhookDeps(parts));
  announcements.subscribe(() => webhookWorker.wake());

  return {
    async stop() {
      await Promise.all([webhookWorker, periodWorker, retentionWorker, systemWorkers].map((worker) => worker.stop()));
    },
  };
}

function periodDeps({ config, db, now, log }: Dependencies, lease: HeldLease): PeriodWorkerDeps {
  const { ledger, events } = config;
  return {
    lease,
    db,
    noticeDays: ledger.expiryNoticeDays,
    eventRetentionDays: events.keepDays,
    intervalMs: ledger.calendarSeconds * 1000,
    now,
    log,
  };
}

function retentionDeps(parts: Dependencies): RetentionWorkerDeps {
  const { config, db, announcements, now, log } = parts;
  const note = (jobId: string) => ({ actor: 'bursar', reason: `retention period of the files of ${jobId} is over` });
  return {
    db,
    retentionDays: (hpc, name) => config.systems[hpc]?.projects.find((project) => project.name === name)?.retentionDays,
    noticeDays: config.retention.noticeDays,
    intervalMs: config.retention.everySeconds * 1000,
    deleteJob: (job) => deleteFiles(parts, job, note(job.jobId)),
    publish: announcements.publish,
    now,
    log,
  };
}

function webhookDeps(parts: Dependencies): WebhookWorkerDeps {
  const { config, db, version, announcements, resolveEndpoint: resolve, holder, metrics, now, log } = parts;
  const { events, webhooks } = config;
  const timeoutMs = Math.ceil(webhooks.timeoutSeconds * 1000);
  return {
    db,
    send: createSender({ rules: webhooks, resolve, timeoutMs, userAgent: `Bursar/${version}` }),
    leaseOwner: holder,
    leaseMs: 2 * timeoutMs + 1000,
    concurrency: webhooks.atOnce,
    pollMs: events.checkSeconds * 1000,
    retrySeconds: webhooks.retrySeconds,
    disableAfterMs: webhooks.disableAfterHours * msPerHour,
    publish: announcements.publish,
    metrics,
    now,
    log,
  };
}
