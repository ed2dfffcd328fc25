import type { Logger } from 'pino';
import type { Config } from '../config/schema.ts';
import { msPerMinute } from '../domain/units.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Tracing } from '../tracing/tracing.ts';

/** Null if no collector is configured: then OpenTelemetry is not even loaded. */
export async function openTracing(
  { tracing }: Config,
  {
    metrics,
    log,
    ...resource
  }: { metrics: Pick<Metrics, 'increment'>; version: string; instanceId: string; log: Logger },
): Promise<Tracing | null> {
  const { endpoint, headers, sampleRatio } = tracing;
  if (endpoint === undefined) return null;
  const { startTracing } = await import('../tracing/open-telemetry.ts');
  let reportedAt = Number.NEGATIVE_INFINITY;
  const onDropped = (spans: number) => {
    metrics.increment('bursar_trace_spans_dropped_total', {}, spans);
    if (performance.now() - reportedAt < msPerMinute) return;
    reportedAt = performance.now();
    log.warn({ spans }, 'spans not sent: the collector of traces is slow or down');
  };
  return startTracing({ endpoint, headers, sampleRatio, ...resource, onDropped });
}
