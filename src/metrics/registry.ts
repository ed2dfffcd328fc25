/** Numbers for whoever watches the service, in the text format of Prometheus. */
export interface Metrics {
  /** Adds to a number that only grows. */
  increment(name: string, labels?: Labels, by?: number): void;
  /** The same for one that is counted again and again, by one each time. */
  createCounter(name: string, labels: Labels): () => void;
  /** Sets a number that goes up and down. */
  setGauge(name: string, labels: Labels, value: number): void;
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

/** A registry of the families that are named here; any other name is a mistake. */
export function createMetrics(families: Readonly<Record<string, Family>>): Metrics {
  const samples = new Map<string, Map<string, Sample>>(Object.keys(families).map((name) => [name, new Map()]));

  function seriesOf(name: string): Map<string, Sample> {
    const series = samples.get(name);
    if (series === undefined) throw new Error(`no metric is called ${name}`);
    return series;
  }

  function sampleOf(name: string, labels: Labels): Sample {
    const series = seriesOf(name);
    const key = labelText(labels);
    const sample = series.get(key) ?? { value: 0 };
    series.set(key, sample);
    return sample;
  }

  return {
    increment(name, labels = {}, by = 1) {
      sampleOf(name, labels).value += by;
    },
    createCounter(name, labels) {
      const sample = sampleOf(name, labels);
      return () => {
        sample.value += 1;
      };
    },
    setGauge(name, labels, value) {
      sampleOf(name, labels).value = value;
    },
    toPrometheusText() {
      const lines = Object.entries(families).flatMap(([name, { type, help }]) => [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} ${type}`,
        ...[...seriesOf(name)].map(([labels, { value }]) => `${name}${labels} ${value}`),
      ]);
      return `${lines.join('\n')}\n`;
    },
  };
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
