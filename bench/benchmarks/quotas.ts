import { compareWithBareHttp } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { startBursar } from '../bursar.ts';

const path = '/quotas/';

export const quotas: Benchmark = {
  name: 'quotas',
  async run(bench) {
    const bursar = await startBursar(bench);
    const load = { paths: [path], headers: bursar.auth, status: 200 };
    await compareWithBareHttp(bench, bursar.url, load, {
      scenario: 'best case: GET /quotas/',
      baseline: 'bare node:http, same bytes',
      threshold: { atLeast: 0.65 },
    });
  },
};
