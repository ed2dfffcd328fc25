import { withDelayedJobs } from '../../domain/systems/health.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { Db } from '../../store/database/handle.ts';
import { countDelayedJobs } from '../../store/jobs/delayed-jobs.ts';
import { countUnfinishedJobs, listSystems } from '../../store/systems/systems.ts';

const statusValues = { up: 1, degraded: 0.5, down: 0 } as const;

/** Updates the gauges that are read from the database. Called before the metrics are sent. */
export async function updateGauges(db: Db, metrics: Pick<Metrics, 'setGauge'>): Promise<void> {
  const counts = await countUnfinishedJobs(db);
  const delayed = await countDelayedJobs(db);
  for (const record of await listSystems(db)) {
    const { hpc } = record;
    const { status } = withDelayedJobs(record, delayed.get(hpc));
    const { queued, running } = counts.get(hpc) ?? { queued: 0, running: 0 };
    metrics.setGauge('bursar_jobs', { hpc, state: 'queued' }, queued);
    metrics.setGauge('bursar_jobs', { hpc, state: 'running' }, running);
    metrics.setGauge('bursar_jobs_delayed', { hpc }, delayed.get(hpc)?.count ?? 0);
    metrics.setGauge('bursar_system_up', { hpc }, statusValues[status]);
  }
}
