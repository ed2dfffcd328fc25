import { deleteFiles } from '../services/jobs/end-job.ts';
import { createSender } from '../webhooks/send.ts';
import { keepTenure } from '../workers/hold-lease.ts';
import { startAccountant } from '../workers/period-worker.ts';
import { startJanitor } from '../workers/retention-worker.ts';
import { startLifecycle } from '../workers/start-systems.ts';
import { startCourier } from '../workers/webhook-worker.ts';
import { staleMs } from './database.ts';
import type { Parts } from './dependencies.ts';

/** What happens without anybody asking: jobs go to their systems and are followed, the calendar, webhooks, tidying up. */
export async function startWorker(parts: Parts): Promise<{ stop(): Promise<void> }> {
  const { books, db, spool, zipLimits, sites, announcements, work, holder, metrics, now, log } = parts;
  const announce = announcements.wake;
  const common = { db, spool, zipLimits, staleMs, metrics, announce, now, log };
  const tenures = { db, holder, leaseMs: books.leaseMs, log };

  const lifecycle = await startLifecycle(
    sites.map((site) => ({ ...common, ...site })),
    tenures,
  );
  work.onWake(lifecycle.wake);
  const accountant = keepTenure(tenures, 'calendar', async (tenure) => startAccountant(calendarOf(parts, tenure)));
  const janitor = keepTenure(tenures, 'tidying', async () => startJanitor(tidyingOf(parts)));
  const courier = startCourier(deliveriesOf(parts));
  announcements.onWake(() => courier.wake());

  return {
    async stop() {
      await Promise.all([courier, accountant, janitor, lifecycle].map((loop) => loop.stop()));
    },
  };
}

function calendarOf({ config, db, now, log }: Parts, tenure: Parameters<typeof startAccountant>[0]['tenure']) {
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

function tidyingOf(parts: Parts): Parameters<typeof startJanitor>[0] {
  const { config, db, announcements, now, log } = parts;
  const note = (jobId: string) => ({ actor: 'bursar', reason: `files of ${jobId} were kept long enough` });
  return {
    db,
    retentionDays: (hpc, name) => config.systems[hpc]?.projects.find((project) => project.name === name)?.retentionDays,
    noticeDays: config.retention.noticeDays,
    everyMs: config.retention.everySeconds * 1000,
    deleteJob: (job) => deleteFiles(parts, job, note(job.jobId)),
    announce: announcements.wake,
    now,
    log,
  };
}

function deliveriesOf(parts: Parts): Parameters<typeof startCourier>[0] {
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
    disableAfterMs: webhooks.disableAfterHours * 3_600_000,
    announce: announcements.wake,
    metrics,
    now,
    log,
  };
}
