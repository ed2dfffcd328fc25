import type { LabelsOf } from '../../metrics/families.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { ServedRequest } from './served-request.ts';

/** Every other method has the label `other`: clients choose the method. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** The route of requests that match none. Paths are not labels: clients choose them. */
const unmatchedRoute = 'unmatched';

interface Series {
  count: { increment(): void };
  labels: LabelsOf<'bursar_http_request_duration_seconds'>;
}

/** Counts and measures every response. Called for each one, so the labels of a route are made once. */
export function createRequestMetrics(metrics: Pick<Metrics, 'counter' | 'observe'>): (served: ServedRequest) => void {
  const allSeries = new Map<string, Series>();

  function createSeries({ method, route = unmatchedRoute, status, isAborted }: ServedRequest): Series {
    const label = methods.has(method) ? method : 'other';
    const statusLabel = isAborted ? 'aborted' : String(status);
    const statusClass = isAborted ? 'aborted' : `${Math.floor(status / 100)}xx`;
    return {
      count: metrics.counter('bursar_http_requests_total', { method: label, status: statusLabel }),
      labels: { method: label, route, status: statusClass },
    };
  }

  return (served) => {
    const key = `${served.method} ${served.isAborted ? 'aborted' : served.status} ${served.route}`;
    let series = allSeries.get(key);
    if (series === undefined) {
      series = createSeries(served);
      allSeries.set(key, series);
    }
    series.count.increment();
    metrics.observe('bursar_http_request_duration_seconds', series.labels, served.latencyMs / 1000);
  };
}
