import { withDelayedJobs } from '../../domain/systems/health.ts';
import { msPerMinute } from '../../domain/units.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { Db } from '../../store/database/handle.ts';
import {
  countDelayedJobs,
  countJobsByState,
  countPendingDeliveries,
  type JobGroup,
  listLeaseHolders,
  sumHolds,
} from '../../store/systems/backlog.ts';
import { listSystems } from '../../store/systems/systems.ts';

export interface GaugeDeps {
  db: Db;
  metrics: Pick<Metrics, 'setGauge'>;
  /** Of the leases of this instance. */
  holder: string;
  now(): number;
}

const statusValues = { up: 1, degraded: 0.5, down: 0 } as const;
const states = ['accepted', 'submitting', 'queued', 'running'] as const;
/** Uploading the files of a job to another host may take some minutes. */
const stuckAfterMs = 15 * msPerMinute;
/** Several scrapers together cause no more queries than one. */
const maxAgeMs = 2000;

/** Returns a function that updates the gauges that are read from the database, unless this was done a moment ago. */
export function createGaugeUpdater(deps: GaugeDeps): () => Promise<void> {
  let updatedAt = Number.NEGATIVE_INFINITY;
  let running: Promise<void> | undefined;

  async function update(): Promise<void> {
    try {
      await updateGauges(deps);
      updatedAt = performance.now();
    } finally {
      running = undefined;
    }
  }

  return async () => {
    if (performance.now() - updatedAt < maxAgeMs) return;
    running ??= update();
    await running;
  };
}

async function updateGauges({ db, metrics, holder, now }: GaugeDeps): Promise<void> {
  const groups = await countJobsByState(db, now() - stuckAfterMs);
  const delayed = await countDelayedJobs(db);
  const holds = new Map((await sumHolds(db)).map((hold) => [hold.hpc, hold]));
  for (const record of await listSystems(db)) {
    const { hpc } = record;
    const { status } = withDelayedJobs(record, delayed.get(hpc));
    const ofSystem = groups.filter((group) => group.hpc === hpc);
    setJobGauges(metrics, hpc, ofSystem, now());
    metrics.setGauge('bursar_jobs_delayed', { hpc }, delayed.get(hpc)?.count ?? 0);
    metrics.setGauge('bursar_system_up', { hpc }, statusValues[status]);
    metrics.setGauge('bursar_quota_held_seconds', { hpc }, Number(holds.get(hpc)?.timeSeconds ?? 0));
    metrics.setGauge('bursar_quota_held_bytes', { hpc }, Number(holds.get(hpc)?.spaceBytes ?? 0));
  }
  for (const lease of await listLeaseHolders(db))
    metrics.setGauge('bursar_lease_holder', { lease: lease.name }, lease.holder === holder ? 1 : 0);
  const { count, oldestAt } = await countPendingDeliveries(db);
  metrics.setGauge('bursar_webhook_deliveries_pending', {}, Number(count));
  metrics.setGauge('bursar_webhook_oldest_pending_seconds', {}, toAgeSeconds(oldestAt, now()));
}

function setJobGauges(metrics: GaugeDeps['metrics'], hpc: string, groups: readonly JobGroup[], now: number): void {
  for (const state of states) {
    const group = groups.find((candidate) => candidate.state === state);
    metrics.setGauge('bursar_jobs', { hpc, state }, Number(group?.jobs ?? 0));
    const ageSeconds = toAgeSeconds(group?.oldestAcceptedAt ?? null, now);
    metrics.setGauge('bursar_oldest_job_age_seconds', { hpc, state }, ageSeconds);
  }
  const sum = (count: (group: JobGroup) => number) => groups.reduce((total, group) => total + Number(count(group)), 0);
  const cancelRequested = sum((group) => group.cancelRequested);
  const stuckSubmissions = sum((group) => group.stuckSubmissions);
  metrics.setGauge('bursar_jobs_cancel_requested', { hpc }, cancelRequested);
  metrics.setGauge('bursar_stuck_submissions', { hpc }, stuckSubmissions);
}

const toAgeSeconds = (since: number | null, now: number) => (since === null ? 0 : Math.max(0, (now - since) / 1000));
