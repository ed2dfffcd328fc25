import { compareWithBareHttp } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { startWithJobs } from '../bursar.ts';

const path = '/jobs/';

export const listUnchanged: Benchmark = {
  name: 'list-unchanged',
  async run(bench) {
    const { bursar } = await startWithJobs(bench, 100);
    const load = { paths: [path], headers: bursar.auth, status: 200 };
    await compareWithBareHttp(bench, bursar.url, load, {
      scenario: 'best case: GET 100 jobs, nothing changed',
      baseline: 'bare node:http, same bytes',
      threshold: { atLeast: 0.6 },
    });
  },
};
