import type { Metrics } from '../../metrics/registry.ts';
import type { Db } from '../../store/database/handle.ts';
import { countUnfinishedJobs, listSystems } from '../../store/systems/systems.ts';

const statusValues = { up: 1, degraded: 0.5, down: 0 } as const;

/** Updates the gauges that are read from the database. Called before the metrics are sent. */
export async function updateGauges(db: Db, metrics: Pick<Metrics, 'setGauge'>): Promise<void> {
  const counts = await countUnfinishedJobs(db);
  for (const { hpc, status } of await listSystems(db)) {
    const { queued, running } = counts.get(hpc) ?? { queued: 0, running: 0 };
    metrics.setGauge('bursar_jobs', { hpc, state: 'queued' }, queued);
    metrics.setGauge('bursar_jobs', { hpc, state: 'running' }, running);
    metrics.setGauge('bursar_system_up', { hpc }, statusValues[status]);
  }
}
