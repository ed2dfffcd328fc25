import type { LabelsOf } from '../../metrics/families.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { AccessLogEntry } from './access-log.ts';

/** Every other method has the label `other`: clients choose the method. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** The route of requests that match none. Paths are not labels: clients choose them. */
export const unmatchedRoute = 'unmatched';

interface Series {
  count: { increment(): void };
  labels: LabelsOf<'bursar_http_request_duration_seconds'>;
}

/** Counts and measures every response. Called for each one, so the labels of a route are made once. */
export function createRequestMetrics(metrics: Pick<Metrics, 'counter' | 'observe'>): (entry: AccessLogEntry) => void {
  const allSeries = new Map<string, Series>();

  function createSeries({ method, route, status, isAborted }: AccessLogEntry): Series {
    const label = methods.has(method) ? method : 'other';
    const statusLabel = isAborted ? 'aborted' : String(status);
    const statusClass = isAborted ? 'aborted' : `${Math.floor(status / 100)}xx`;
    return {
      count: metrics.counter('bursar_http_requests_total', { method: label, status: statusLabel }),
      labels: { method: label, route, status: statusClass },
    };
  }

  return (entry) => {
    const key = `${entry.method} ${entry.isAborted ? 'aborted' : entry.status} ${entry.route}`;
    let series = allSeries.get(key);
    if (series === undefined) {
      series = createSeries(entry);
      allSeries.set(key, series);
    }
    series.count.increment();
    metrics.observe('bursar_http_request_duration_seconds', series.labels, entry.latencyMs / 1000);
  };
}
