import type { Benchmark } from '../benchmark.ts';
import { startWithJobs } from '../bursar.ts';
import { download } from '../download.ts';
import { memoryMb, peakMemoryMb, resetPeakMemory } from '../processes.ts';

export const longList: Benchmark = {
  name: 'long-list',
  async run(bench) {
    const { bursar } = await startWithJobs(bench, bench.size.listedJobs);
    await bench.measure({
      scenario: `list of ${bench.size.listedJobs.toLocaleString('en')} jobs`,
      baseline: 'memory before',
      unit: 'MB',
      threshold: { atMost: 64 },
      async ours() {
        const beforeMb = memoryMb(bursar.pid);
        resetPeakMemory(bursar.pid);
        await download(`${bursar.url}/jobs/`, bursar.auth);
        return peakMemoryMb(bursar.pid) - beforeMb;
      },
    });
  },
};
