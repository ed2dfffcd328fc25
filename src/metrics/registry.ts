/** A registry of counters and gauges. Names that are not in its list of families throw. */
export interface Metrics {
  /** Increases a counter. */
  increment(name: string, labels?: Labels, by?: number): void;
  /** Finds a counter once, for code that increases it often: formatting the labels takes longer than counting. */
  counter(name: string, labels: Labels): { increment(): void };
  /** Does the same for a gauge. */
  gauge(name: string, labels: Labels): { set(value: number): void };
  setGauge(name: string, labels: Labels, value: number): void;
  /** All metrics in the Prometheus text format. */
  toPrometheusText(): string;
}

export type Labels = Readonly<Record<string, string>>;

interface Family {
  type: 'counter' | 'gauge';
  help: string;
}

interface Sample {
  value: number;
}

export function createMetrics(families: Readonly<Record<string, Family>>): Metrics {
  const samplesByName = new Map<string, Map<string, Sample>>(Object.keys(families).map((name) => [name, new Map()]));

  function requireSamples(name: string): Map<string, Sample> {
    const samples = samplesByName.get(name);
    if (samples === undefined) throw new Error(`unknown metric: ${name}`);
    return samples;
  }

  function findOrCreateSample(name: string, labels: Labels): Sample {
    const samples = requireSamples(name);
    const key = formatLabels(labels);
    const sample = samples.get(key) ?? { value: 0 };
    samples.set(key, sample);
    return sample;
  }

  return {
    increment(name, labels = {}, by = 1) {
      findOrCreateSample(name, labels).value += by;
    },
    counter(name, labels) {
      const sample = findOrCreateSample(name, labels);
      return {
        increment() {
          sample.value += 1;
        },
      };
    },
    setGauge(name, labels, value) {
      findOrCreateSample(name, labels).value = value;
    },
    gauge(name, labels) {
      const sample = findOrCreateSample(name, labels);
      return {
        set(value) {
          sample.value = value;
        },
      };
    },
    toPrometheusText() {
      const lines = Object.entries(families).flatMap(([name, { type, help }]) => [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} ${type}`,
        ...[...requireSamples(name)].map(([labels, { value }]) => `${name}${labels} ${value}`),
      ]);
      return `${lines.join('\n')}\n`;
    },
  };
}

function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabelValue(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escapeLabelValue(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
