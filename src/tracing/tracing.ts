/** The attributes of a span. Never secrets, commands, or names of files. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanOptions {
  kind?: 'server' | 'client' | 'internal';
  /** The span that this one belongs to, as a W3C `traceparent`. Default: the active span. A malformed one is ignored. */
  parent?: string | null;
  /** Epoch milliseconds. Default: now. */
  startedAt?: number;
  attributes?: SpanAttributes;
}

export interface SpanEnd {
  /** Epoch milliseconds. Default: now. */
  endedAt?: number;
  attributes?: SpanAttributes;
  hasFailed?: boolean;
}

/** A step of a trace. */
export interface Span {
  readonly traceId: string;
  /** As a W3C `traceparent`, for other processes and for the database. */
  readonly traceParent: string;
  end(end?: SpanEnd): void;
}

/** Records the spans of this process. No method throws or waits for the collector, except `stop`. */
export interface Tracing {
  startSpan(name: string, options?: SpanOptions): Span;
  /** Runs the work with an active span, and ends the span with it: as failed if the work throws. */
  inSpan<T>(name: string, options: SpanOptions, work: () => Promise<T>): Promise<T>;
  /** Whether a span is active. */
  isActive(): boolean;
  /** Sends the spans that wait, for at most this long. */
  stop(timeoutMs: number): Promise<void>;
}

/** Runs the work, in a span if tracing is on and the work belongs to a trace. */
export async function inSpanOf<T>(
  tracing: Tracing | null,
  parent: string | null,
  name: string,
  attributes: SpanAttributes,
  work: () => Promise<T>,
): Promise<T> {
  if (tracing === null || parent === null) return await work();
  return await tracing.inSpan(name, { parent, attributes }, work);
}

/** Runs the work, in a span if another span is active. */
export async function inActiveSpan<T>(tracing: Tracing | null, name: string, work: () => Promise<T>): Promise<T> {
  return tracing?.isActive() ? await tracing.inSpan(name, {}, work) : await work();
}
