import { statSync } from 'node:fs';
import { startBareHttp } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { stalledSlurmConfig, startBursar } from '../bursar.ts';
import { largeZip, upload } from '../upload.ts';

const count = 10;

/** Uploads at the same time. No job is dispatched, so that nothing is unpacked meanwhile. */
export const uploads: Benchmark = {
  name: 'uploads',
  async run(bench) {
    const megabytes = bench.size.fileMb / 5;
    const zip = await largeZip(bench, megabytes);
    const { url, auth } = await startBursar(bench, { config: stalledSlurmConfig(bench) });
    const bareUrl = await startBareHttp(bench, { store: bench.temporaryFolder('stored') });
    const rate = (target: string) => async () => {
      const startedAt = performance.now();
      await Promise.all(Array.from({ length: count }, () => upload(target, auth, zip)));
      return (count * statSync(zip).size) / 1000 / (performance.now() - startedAt);
    };
    await bench.compare({
      scenario: `${count} uploads of ${megabytes} MB at the same time`,
      baseline: 'a bare node:http that stores and syncs the bodies',
      unit: 'MB/s',
      threshold: { atLeast: 0.7 },
      ours: rate(url),
      theirs: rate(bareUrl),
    });
  },
};
