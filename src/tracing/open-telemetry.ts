import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import * as api from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Span, SpanOptions, Tracing } from './tracing.ts';

export interface TracingOptions {
  /** The address of the collector: OTLP over HTTP, with JSON. */
  endpoint: string;
  headers: Readonly<Record<string, string>>;
  /** The part of the traces that begin here and are recorded, from 0 to 1. A trace of a caller is recorded if theirs is. */
  sampleRatio: number;
  version: string;
  instanceId: string;
  /** Called with the number of spans that were not sent. */
  onDropped(spans: number): void;
}

/** About 4 MB. More spans are dropped while the collector is slow or down. */
const maxWaitingSpans = 4096;
const maxBatchSpans = 512;
const batchDelayMs = 1000;
const exportTimeoutMs = 10_000;

const kinds = { server: api.SpanKind.SERVER, client: api.SpanKind.CLIENT, internal: api.SpanKind.INTERNAL };

/** Sends spans to a collector by OpenTelemetry. Loaded only if a collector is configured. */
export function startTracing(tracingOptions: TracingOptions): Tracing {
  const { sampleRatio, version, instanceId } = tracingOptions;
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': 'bursar',
      'service.version': version,
      'service.instance.id': instanceId,
    }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampleRatio) }),
    spanProcessors: [createBoundedProcessor(tracingOptions)],
  });
  const tracer = provider.getTracer('bursar', version);
  const active = new AsyncLocalStorage<Span>();

  function startSpan(name: string, { kind = 'internal', parent, startedAt, attributes = {} }: SpanOptions = {}): Span {
    const parentContext = toSpanContext(parent === undefined ? active.getStore()?.traceParent : parent);
    const context =
      parentContext === undefined ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, parentContext);
    const options = { kind: kinds[kind], attributes, ...(startedAt !== undefined && { startTime: startedAt }) };
    const span = tracer.startSpan(name, options, context);
    const { traceId, spanId, traceFlags } = span.spanContext();
    return {
      traceId,
      traceParent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
      end({ endedAt, attributes: lateAttributes = {}, hasFailed = false } = {}) {
        span.setAttributes(lateAttributes);
        if (hasFailed) span.setStatus({ code: api.SpanStatusCode.ERROR });
        span.end(endedAt);
      },
    };
  }

  return {
    startSpan,
    async inSpan(name, spanOptions, work) {
      const span = startSpan(name, spanOptions);
      let hasFailed = true;
      try {
        const result = await active.run(span, work);
        hasFailed = false;
        return result;
      } finally {
        span.end({ hasFailed });
      }
    },
    isActive: () => active.getStore() !== undefined,
    async stop(timeoutMs) {
      const stopped = provider.shutdown().catch(() => undefined);
      await Promise.race([stopped, sleep(timeoutMs, undefined, { ref: false })]);
    },
  };
}

/** Drops and counts spans while too many wait: the processor of OpenTelemetry does not tell how many it drops. */
function createBoundedProcessor({ endpoint, headers, onDropped }: TracingOptions): SpanProcessor {
  const otlp = new OTLPTraceExporter({ url: endpoint, headers: { ...headers }, timeoutMillis: exportTimeoutMs });
  let waiting = 0;
  const exporter: SpanExporter = {
    export(spans, onResult) {
      otlp.export(spans, (result) => {
        waiting -= spans.length;
        if (result.error !== undefined) onDropped(spans.length);
        onResult(result);
      });
    },
    shutdown: () => otlp.shutdown(),
    forceFlush: () => otlp.forceFlush(),
  };
  const batches = new BatchSpanProcessor({
    exporter,
    maxQueueSize: maxWaitingSpans,
    maxExportBatchSize: maxBatchSpans,
    scheduledDelayMillis: batchDelayMs,
    exportTimeoutMillis: exportTimeoutMs + 1000,
  });
  return {
    onStart: (span, context) => batches.onStart(span, context),
    onEnd(span: ReadableSpan) {
      if ((span.spanContext().traceFlags & api.TraceFlags.SAMPLED) === 0) return;
      if (waiting >= maxWaitingSpans) return onDropped(1);
      waiting += 1;
      batches.onEnd(span);
    },
    forceFlush: () => batches.forceFlush(),
    shutdown: () => batches.shutdown(),
  };
}

const traceParentFormat = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-|$)/;

function toSpanContext(traceParent: string | null | undefined): api.SpanContext | undefined {
  const [, traceId = '', spanId = '', flags = '0'] = traceParentFormat.exec(traceParent ?? '') ?? [];
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & api.TraceFlags.SAMPLED, isRemote: true };
  return api.isSpanContextValid(context) ? context : undefined;
}
