import { deleteFiles } from '../services/jobs/delete-job.ts';
import { type HeldLease, holdLease } from '../workers/hold-lease.ts';
import { startSystemWorkers } from '../workers/jobs/system-workers.ts';
import { type PeriodWorkerDeps, startPeriodWorker } from '../workers/period-worker.ts';
import { type RetentionWorkerDeps, startRetentionWorker } from '../workers/retention-worker.ts';
import { startWebhookWorker, type WebhookWorkerDeps } from '../workers/webhook-worker.ts';
import { staleMs } from './database.ts';
import type { Dependencies } from './dependencies.ts';

/** Starts all background work: dispatching and watching jobs, accounting periods, webhook deliveries, file retention. */
export async function startWorker(deps: Dependencies): Promise<{ stop(): Promise<void> }> {
  const { config, tuning, database, db, spool, zipLimits, systemBackends, userTopic, systemTopic } = deps;
  const { removeFiles, holder, metrics, tracing, now, log } = deps;
  const { delayAlarmMs, missingAlarmMs } = tuning;
  const common = { db, spool, zipLimits, staleMs, removeFiles, metrics, tracing, publish: userTopic.publish, now, log };
  const leaseDeps = { db, holder, leaseMs: database.leaseMs, drainMs: config.server.drainSeconds * 1000, log };

  const systemWorkers = await startSystemWorkers(
    systemBackends.map((backend) => ({ ...common, ...backend, delayAlarmMs, missingAlarmMs })),
    leaseDeps,
  );
  systemTopic.subscribe(systemWorkers.wake);
  const periodWorker = holdLease(leaseDeps, 'periods', async (lease) => startPeriodWorker(periodDeps(deps, lease)));
  const retentionWorker = holdLease(leaseDeps, 'retention', async (lease) =>
    startRetentionWorker(retentionDeps(deps, lease)),
  );
  const webhookWorker = startWebhookWorker(webhookDeps(deps));
  userTopic.subscribe(() => webhookWorker.wake());

  return {
    async stop() {
      await Promise.all([webhookWorker, periodWorker, retentionWorker, systemWorkers].map((worker) => worker.stop()));
    },
  };
}

function periodDeps({ config, tuning, db, now, log }: Dependencies, lease: HeldLease): PeriodWorkerDeps {
  return {
    lease,
    db,
    noticeDays: config.noticeDays,
    eventRetentionDays: config.eventRetentionDays,
    intervalMs: tuning.periodIntervalMs,
    now,
    log,
  };
}

function retentionDeps(deps: Dependencies, lease: HeldLease): RetentionWorkerDeps {
  const { config, tuning, db, userTopic, now, log } = deps;
  const reasonFor = (jobId: string) => `retention period of the files of ${jobId} is over`;
  return {
    lease,
    db,
    retentionDays: (hpc, name) => config.systems[hpc]?.projects.find((project) => project.name === name)?.retentionDays,
    noticeDays: config.noticeDays,
    intervalMs: tuning.retentionIntervalMs,
    deleteJob: (job) =>
      deleteFiles({ ...deps, transaction: lease.transaction }, job, { actor: 'bursar', reason: reasonFor(job.jobId) }),
    publish: userTopic.publish,
    now,
    log,
  };
}

function webhookDeps(deps: Dependencies): WebhookWorkerDeps {
  const { config, tuning, db, userTopic, holder, metrics, now, log } = deps;
  return {
    db,
    send: deps.sendWebhook,
    secretKey: deps.secretKey,
    leaseOwner: holder,
    leaseMs: 2 * tuning.webhookTimeoutMs + 1000,
    concurrency: config.webhooks.concurrency,
    pollMs: tuning.eventIntervalMs,
    retrySeconds: tuning.webhookRetrySeconds,
    disableAfterMs: tuning.webhookDisableAfterMs,
    publish: userTopic.publish,
    metrics,
    tracing: deps.tracing,
    now,
    log,
  };
}
