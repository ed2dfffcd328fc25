import { deleteFiles } from '../services/jobs/delete-job.ts';
import { type ExpiryWorkerDeps, startExpiryWorker } from '../workers/expiry-worker.ts';
import { type HeldLease, holdLease } from '../workers/hold-lease.ts';
import { startSystemWorkers } from '../workers/jobs/system-workers.ts';
import { startWebhookWorker } from '../workers/webhook-worker.ts';
import { staleMs } from './database.ts';
import type { Dependencies } from './dependencies.ts';

/** Starts all background work: dispatching and watching jobs, ending what has a time limit, webhook deliveries. */
export async function startWorker(deps: Dependencies): Promise<{ stop(): Promise<void> }> {
  const { config, tuning, database, systemBackends, userTopic, systemTopic, holder } = deps;
  const { delayAlarmMs, missingAlarmMs } = tuning;
  const common = { ...deps, staleMs, delayAlarmMs, missingAlarmMs, publish: userTopic.publish };
  const drainMs = config.server.drainSeconds * 1000;
  const leaseDeps = { ...deps, leaseMs: database.leaseMs, drainMs };

  const systemWorkers = await startSystemWorkers(
    systemBackends.map((backend) => ({ ...common, ...backend })),
    leaseDeps,
  );
  systemTopic.subscribe(systemWorkers.wake);
  const expiryWorker = holdLease(leaseDeps, 'expiry', async (lease) => startExpiryWorker(expiryDeps(deps, lease)));
  const webhookWorker = startWebhookWorker({
    ...common,
    send: deps.sendWebhook,
    leaseOwner: holder,
    leaseMs: 2 * tuning.webhookTimeoutMs + 1000,
    concurrency: config.webhooks.concurrency,
    pollMs: tuning.eventIntervalMs,
    retrySeconds: tuning.webhookRetrySeconds,
    disableAfterMs: tuning.webhookDisableAfterMs,
  });
  userTopic.subscribe(() => webhookWorker.wake());

  return {
    async stop() {
      await Promise.all([webhookWorker, expiryWorker, systemWorkers].map((worker) => worker.stop()));
    },
  };
}

function expiryDeps(deps: Dependencies, lease: HeldLease): ExpiryWorkerDeps {
  const { config, tuning, userTopic } = deps;
  const reasonFor = (jobId: string) => `retention period of the files of ${jobId} is over`;
  return {
    ...deps,
    lease,
    noticeDays: config.noticeDays,
    eventRetentionDays: config.eventRetentionDays,
    retentionDays: (hpc, name) => config.systems[hpc]?.projects.find((project) => project.name === name)?.retentionDays,
    intervalMs: tuning.expiryIntervalMs,
    deleteJob: (job) =>
      deleteFiles({ ...deps, transaction: lease.transaction }, job, { actor: 'bursar', reason: reasonFor(job.jobId) }),
    publish: userTopic.publish,
  };
}
