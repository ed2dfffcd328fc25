import type { Benchmark } from '../benchmark.ts';
import { startWithJobs } from '../bursar.ts';
import { forgetPeak, memoryMb, peakMemoryMb } from '../processes.ts';
import { readAll } from '../read-all.ts';

export const longList: Benchmark = {
  name: 'long-list',
  async run(bench) {
    const { bursar } = await startWithJobs(bench, bench.size.listedJobs);
    await bench.measure({
      what: `list of ${bench.size.listedJobs.toLocaleString('en')} jobs`,
      yardstick: 'memory before',
      unit: 'MB',
      bar: { atMost: 64 },
      async ours() {
        const before = memoryMb(bursar.pid);
        forgetPeak(bursar.pid);
        await readAll(`${bursar.url}/jobs/`, bursar.auth);
        return peakMemoryMb(bursar.pid) - before;
      },
    });
  },
};
