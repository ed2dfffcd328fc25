/** A registry of counters and gauges. Names that are not in its list of families throw. */
export interface Metrics {
  /** Increases a counter. */
  increment(name: string, labels?: Labels, by?: number): void;
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
  const samples = new Map<string, Map<string, Sample>>(Object.keys(families).map((name) => [name, new Map()]));

  function requireSeries(name: string): Map<string, Sample> {
    const series = samples.get(name);
    if (series === undefined) throw new Error(`unknown metric: ${name}`);
    return series;
  }

  function findOrCreateSample(name: string, labels: Labels): Sample {
    const series = requireSeries(name);
    const key = formatLabels(labels);
    const sample = series.get(key) ?? { value: 0 };
    series.set(key, sample);
    return sample;
  }

  return {
    increment(name, labels = {}, by = 1) {
      findOrCreateSample(name, labels).value += by;
    },
    setGauge(name, labels, value) {
      findOrCreateSample(name, labels).value = value;
    },
    toPrometheusText() {
      const lines = Object.entries(families).flatMap(([name, { type, help }]) => [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} ${type}`,
        ...[...requireSeries(name)].map(([labels, { value }]) => `${name}${labels} ${value}`),
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
