import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type RunSettings, runJob } from '../../src/engines/local/run-job.ts';
import { localSandbox } from '../../test/support/bubblewrap.ts';
import type { Benchmark } from '../benchmark.ts';
import { quantile } from '../statistics.ts';

/** What a sandbox costs a job of the local engine: the time from the start of a job that does nothing to its end. */
export const isolation: Benchmark = {
  name: 'isolation',
  requires: ['bubblewrap'],
  async run(bench) {
    const folder = bench.temporaryFolder('isolation');
    const directory = join(folder, 'files');
    await mkdir(directory);
    const limits = { memoryMb: 1000, outputKb: 1000, killGraceSeconds: 1 };
    const sandbox = localSandbox({ hidden: [folder] });

    async function runSeconds(settings: Partial<RunSettings>): Promise<number> {
      const startedAt = performance.now();
      const end = await runJob({
        limits,
        ...settings,
        job: {
          jobId: 'BENCHMARK',
          nodes: 1,
          coresPerNode: 1,
          runtimeSeconds: 60,
          command: { kind: 'argv', argv: ['true'] },
          workspace: { directory, stdout: join(folder, 'stdout'), stderr: join(folder, 'stderr') },
          site: {},
        },
        folder,
        startedAt: Date.now(),
        stop: new AbortController().signal,
        isCancellationRequested: async () => false,
        onStarted: async () => {},
      });
      if (end.outcome !== 'succeeded') throw new Error(end.reason);
      return (performance.now() - startedAt) / 1000;
    }

    await bench.measure({
      scenario: 'a job in a sandbox, more than without one',
      baseline: '30 ms',
      unit: 's',
      threshold: { atMost: 0.03 },
      async ours() {
        const differences: number[] = [];
        for (let n = 0; n < bench.size.isolatedJobs; n++) {
          const plain = await runSeconds({});
          differences.push((await runSeconds({ sandbox })) - plain);
        }
        return quantile(
          differences.sort((a, b) => a - b),
          0.5,
        );
      },
    });
  },
};
