// The whole package also loads modules for clusters and TLS, which take 9 MB of memory.
import Counter from 'prom-client/lib/counter.js';
import collectDefaultMetrics from 'prom-client/lib/defaultMetrics.js';
import Gauge from 'prom-client/lib/gauge.js';
import Histogram from 'prom-client/lib/histogram.js';
import Registry from 'prom-client/lib/registry.js';
import {
  type CounterName,
  type Family,
  families,
  type GaugeName,
  type HistogramName,
  type LabelsOf,
} from './families.ts';

/** The metrics of one instance. Names and labels that `families` does not have do not compile. */
export interface Metrics {
  increment<Name extends CounterName>(name: Name, labels: LabelsOf<Name>, by?: number): void;
  setGauge<Name extends GaugeName>(name: Name, labels: LabelsOf<Name>, value: number): void;
  observe<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, value: number): void;
  /** All metrics in the text format of Prometheus. */
  toPrometheusText(): Promise<string>;
}

/** Gauges of prom-client that are named like counters, or say nothing that other metrics do not. */
const leftOut = ['resources', 'handles', 'requests'].flatMap((kind) => [
  `nodejs_active_${kind}`,
  `nodejs_active_${kind}_total`,
]);

/** How often the event loop is measured. At the default of 10 ms an idle server would be woken 100 times a second. */
const eventLoopIntervalMs = 50;

const classes = { counter: Counter, gauge: Gauge, histogram: Histogram };

export function createMetrics(version: string): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: eventLoopIntervalMs });
  for (const name of leftOut) registry.removeSingleMetric(name);
  const metrics = new Map<string, Counter | Gauge | Histogram>();
  for (const [name, family] of Object.entries<Family>(families)) {
    const { type, labels, help, buckets = [] } = family;
    const options = { name, help, labelNames: [...labels], buckets: [...buckets], registers: [registry] };
    metrics.set(name, new classes[type](options));
  }
  const counterOf = (name: CounterName) => metrics.get(name) as Counter;
  const gaugeOf = (name: GaugeName) => metrics.get(name) as Gauge;
  gaugeOf('bursar_build_info').set({ version }, 1);

  return {
    increment: (name, labels, by = 1) => counterOf(name).inc(labels, by),
    setGauge: (name, labels, value) => gaugeOf(name).set(labels, value),
    observe: (name, labels, value) => (metrics.get(name) as Histogram).observe(labels, value),
    toPrometheusText: () => registry.metrics(),
  };
}
