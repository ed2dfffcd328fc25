import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench, Benchmark } from '../benchmark.ts';
import { type BenchServer, startBursar, startWithJobs } from '../bursar.ts';
import { peakMemoryMb, resetPeakMemory, treeMemoryMb } from '../processes.ts';

async function requireReady({ url }: BenchServer): Promise<void> {
  const { status } = await fetch(`${url}/readyz`);
  if (status !== 200) throw new Error(`/readyz responded with ${status}`);
}

async function restart(bench: Bench, data: string): Promise<{ bursar: BenchServer; seconds: number }> {
  const startedAt = performance.now();
  const bursar = await startBursar(bench, { data });
  await requireReady(bursar);
  return { bursar, seconds: (performance.now() - startedAt) / 1000 };
}

export const footprint: Benchmark = {
  name: 'footprint',
  async run(bench) {
    const first = await startWithJobs(bench, 100);
    const { data, auth } = first.bursar;
    let bursar = first.bursar;
    await bench.measureFigures({
      rows: [
        { scenario: 'start to ready', baseline: '', unit: 's', threshold: { aim: 0.4 } },
        { scenario: 'memory at rest, all processes', baseline: '', unit: 'MB', threshold: { aim: 130 } },
      ],
      async ours() {
        await bursar.stop();
        const restarted = await restart(bench, data);
        bursar = restarted.bursar;
        if (bench.size.seconds !== null) await sleep(1000);
        return [restarted.seconds, treeMemoryMb(bursar.pid)];
      },
    });
    await bench.measure({
      scenario: 'memory under load',
      baseline: '',
      unit: 'MB',
      threshold: { aim: 160 },
      async ours() {
        resetPeakMemory(bursar.pid);
        const paths = ['/jobs/', '/quotas/', ...first.jobs.map(({ path }) => path)];
        const { seconds } = bench.size;
        await bench.loadGenerator.rate({
          url: bursar.url,
          paths,
          headers: auth,
          connections: 100,
          seconds,
          status: 200,
        });
        return peakMemoryMb(bursar.pid);
      },
    });
  },
};
