import { compareWithBareHttp } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { startWithJobs } from '../bursar.ts';

export const oneJob: Benchmark = {
  name: 'one-job',
  async run(bench) {
    const { bursar, jobs } = await startWithJobs(bench, 100);
    const paths = jobs.map(({ path }) => path);
    const load = { paths, headers: bursar.auth, status: 200 };
    await compareWithBareHttp(bench, bursar.url, load, {
      scenario: 'best case: GET one job',
      baseline: 'bare node:http, same bytes',
      threshold: { atLeast: 0.7 },
    });
  },
};
