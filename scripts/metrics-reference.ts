import { type Family, families } from '../src/metrics/families.ts';

/** docs/metrics.md: the table of Bursar's metric families. */
export function metricsReference(): string {
  const rows = Object.entries<Family>(families).map(([name, { type, labels, help }]) => {
    const labelList = labels.map((label) => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${type} | ${labelList} | ${help} |`;
  });
  return `# Metrics

\`GET /metrics\` of each instance serves these families in the text format of Prometheus, and the default metrics of
\`prom-client\` about the process: event loop (\`nodejs_eventloop_lag_*\`), garbage collection (\`nodejs_gc_duration_seconds\`),
memory and heap (\`process_resident_memory_bytes\`, \`nodejs_heap_*\`), CPU time and file descriptors (\`process_*\`).

Counters and histograms are those of the instance since its start. Gauges about jobs, systems, quotas, leases and webhooks
are read from the database when they are asked for, at most every two seconds: all instances report the same, except
\`bursar_lease_holder\`. No label has the name of a user, a job or a file.

This page is generated from \`src/metrics/families.ts\` by \`npm run docs\`.

| name | type | labels | meaning |
|---|---|---|---|
${rows.join('\n')}
`;
}
