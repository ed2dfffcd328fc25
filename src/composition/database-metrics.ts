import type { Metrics } from '../metrics/metrics.ts';
import type { DatabaseObserver, Db } from '../store/database/handle.ts';

export function observeDatabase({ observe }: Pick<Metrics, 'observe'>): DatabaseObserver {
  return {
    onOperation: (operation, ms) => observe('bursar_database_operation_duration_seconds', { operation }, ms / 1000),
    onGroupCommit: (transactions) => observe('bursar_database_commit_transactions', {}, transactions),
  };
}

/** Sets the gauges of the pool, if the database has one. */
export function updatePoolGauges({ backend }: Db, { setGauge }: Pick<Metrics, 'setGauge'>): void {
  const status = backend.poolStatus?.();
  if (status === undefined) return;
  setGauge('bursar_database_connections', { state: 'idle' }, status.idle);
  setGauge('bursar_database_connections', { state: 'busy' }, status.busy);
  setGauge('bursar_database_waiting', {}, status.waiting);
}
