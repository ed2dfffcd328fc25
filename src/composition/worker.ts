import { msPerHour } from '../domain/units.ts';
import { deleteFiles } from '../services/jobs/end-job.ts';
import { createSender } from '../webhooks/send.ts';
import { holdLease } from '../workers/hold-lease.ts';
import { startPeriodWorker } from '../workers/period-worker.ts';
import { startRetentionWorker } from '../workers/retention-worker.ts';
import { startSystemWorkers } from '../workers/start-systems.ts';
import { startWebhookWorker } from '../workers/webhook-worker.ts';
import { staleMs } from './database.ts';
import type { Dependencies } from './dependencies.ts';

/** What happens without anybody asking: jobs go to their systems and are followed, the calendar, webhooks, tidying up. */
export async function startWorker(parts: Dependencies): Promise<{ stop(): Promise<void> }> {
  const { books, db, spool, zipLimits, sites, announcements, work, holder, metrics, now, log } = parts;
  const announce = announcements.publish;
  const common = { db, spool, zipLimits, staleMs, metrics, announce, now, log };
  const tenures = { db, holder, leaseMs: books.leaseMs, log };

  const lifecycle = await startSystemWorkers(
    sites.map((site) => ({ ...common, ...site })),
    tenures,
  );
  work.subscribe(lifecycle.wake);
  const accountant = holdLease(tenures, 'calendar', async (tenure) => startPeriodWorker(calendarOf(parts, tenure)));
  const janitor = holdLease(tenures, 'tidying', async () => startRetentionWorker(tidyingOf(parts)));
  const courier = startWebhookWorker(deliveriesOf(parts));
  announcements.subscribe(() => courier.wake());

  return {
    async stop() {
      await Promise.all([courier, accountant, janitor, lifecycle].map((loop) => loop.stop()));
    },
  };
}

function calendarOf({ config, db, now, log }: Dependencies, tenure: Parameters<typeof startPeriodWorker>[0]['tenure']) {
  const { ledger, events } = config;
  return {
    tenure,
    db,
    noticeDays: ledger.expiryNoticeDays,
    keepEventsDays: events.keepDays,
    everyMs: ledger.calendarSeconds * 1000,
    now,
    log,
  };
}

function tidyingOf(parts: Dependencies): Parameters<typeof startRetentionWorker>[0] {
  const { config, db, announcements, now, log } = parts;
  const note = (jobId: string) => ({ actor: 'bursar', reason: `files of ${jobId} were kept long enough` });
  return {
    db,
    retentionDays: (hpc, name) => config.systems[hpc]?.projects.find((project) => project.name === name)?.retentionDays,
    noticeDays: config.retention.noticeDays,
    everyMs: config.retention.everySeconds * 1000,
    deleteJob: (job) => deleteFiles(parts, job, note(job.jobId)),
    announce: announcements.publish,
    now,
    log,
  };
}

function deliveriesOf(parts: Dependencies): Parameters<typeof startWebhookWorker>[0] {
  const { config, db, version, announcements, resolveReceiver: resolve, holder, metrics, now, log } = parts;
  const { events, webhooks } = config;
  const timeoutMs = Math.ceil(webhooks.timeoutSeconds * 1000);
  return {
    db,
    send: createSender({ rules: webhooks, resolve, timeoutMs, userAgent: `Bursar/${version}` }),
    leaseOwner: holder,
    leaseMs: 2 * timeoutMs + 1000,
    atOnce: webhooks.atOnce,
    checkMs: events.checkSeconds * 1000,
    retrySeconds: webhooks.retrySeconds,
    disableAfterMs: webhooks.disableAfterHours * msPerHour,
    announce: announcements.publish,
    metrics,
    now,
    log,
  };
}
