import { until } from './until.ts';
import { startEndpoint, type TestEndpoint } from './webhook-endpoint.ts';

/** A span as the collector receives it: OTLP in JSON. */
export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
}

interface TraceRequest {
  resourceSpans: { scopeSpans: { spans: ReceivedSpan[] }[] }[];
}

export interface TraceCollector extends TestEndpoint {
  spans(): ReceivedSpan[];
  waitForSpan(traceId: string, name: string): Promise<ReceivedSpan>;
}

/** Starts an HTTP server that receives traces. Its address for Bursar is `url` with `/v1/traces`. */
export async function startTraceCollector(): Promise<TraceCollector> {
  const endpoint = await startEndpoint();
  const spans = () =>
    endpoint.requests.flatMap(({ body }) =>
      (JSON.parse(body) as TraceRequest).resourceSpans.flatMap(({ scopeSpans }) =>
        scopeSpans.flatMap((scope) => scope.spans),
      ),
    );
  return {
    ...endpoint,
    spans,
    waitForSpan: (traceId, name) =>
      until(`the span ${name}`, () => spans().find((span) => span.traceId === traceId && span.name === name)),
  };
}
