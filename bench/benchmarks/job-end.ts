import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createCaller } from '../../test/support/api.ts';
import { openEventStream } from '../../test/support/event-stream.ts';
import { until } from '../../test/support/until.ts';
import { createZip } from '../../test/support/zip.ts';
import type { Benchmark } from '../benchmark.ts';
import { startBursar } from '../bursar.ts';
import { slurmConfig, startSlurm } from '../slurm-queue.ts';
import { quantile } from '../statistics.ts';

const pollIntervalSeconds = 1;
/** The jobs end at random points of the poll interval, and record their end. */
const script = '#!/bin/bash\nsleep 1.$((RANDOM % 1000 + 1000))\ndate +%s%3N > end\n';

export const jobEnd: Benchmark = {
  name: 'job-end',
  requires: ['Slurm'],
  async run(bench) {
    const cluster = await startSlurm(bench, { nodes: 2 });
    const bursar = await startBursar(bench, { config: slurmConfig(cluster, pollIntervalSeconds) });
    const client = createCaller(bursar.url, bursar.userToken);
    const stream = await openEventStream(bursar.url, bursar.userToken);
    bench.defer(stream.disconnect);
    const zip = await createZip({ 'run.sh': script });
    const readEndMs = ({ job_id }: { job_id: string }) =>
      Number(readFileSync(join(bursar.data, 'workspaces', job_id, 'files', 'end'), 'utf8'));
    const delays: number[] = [];

    await bench.measure({
      scenario: 'end of a Slurm job to the event at a listener, 95th percentile',
      baseline: `the poll interval, ${pollIntervalSeconds} s`,
      unit: 's',
      threshold: { atMost: pollIntervalSeconds + 0.5 },
      async ours() {
        const seenAtMs = new Map<string, number>();
        const submitted = new Set<string>();
        for (let n = 0; n < bench.size.endingJobs; n++)
          submitted.add(
            (await client.submit('/jobs/hpc_one/', { command: 'bash run.sh', runtime: 0.1 }, zip)).body.job_id,
          );
        await until('the ends of all jobs', () => {
          for (const { type, job } of stream.events())
            if (type === 'job.ended' && job && submitted.has(job.job_id) && !seenAtMs.has(job.job_id))
              seenAtMs.set(job.job_id, Date.now());
          return seenAtMs.size === submitted.size || undefined;
        });
        const roundDelays = [...seenAtMs].map(([job_id, at]) => (at - readEndMs({ job_id })) / 1000);
        delays.push(...roundDelays);
        return quantile(
          roundDelays.sort((a, b) => a - b),
          0.95,
        );
      },
      aggregate: () =>
        quantile(
          delays.sort((a, b) => a - b),
          0.95,
        ),
    });
  },
};
