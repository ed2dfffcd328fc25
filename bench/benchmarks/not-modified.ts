import { compareWithBareHttp } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { startWithJobs } from '../bursar.ts';

const path = '/jobs/';

export const notModified: Benchmark = {
  name: 'not-modified',
  async run(bench) {
    const { bursar } = await startWithJobs(bench, 100);
    const first = await fetch(bursar.url + path, { headers: bursar.auth });
    const headers = { ...bursar.auth, 'if-none-match': first.headers.get('etag') ?? '' };
    const load = { paths: [path], headers, status: 304 };
    await compareWithBareHttp(bench, bursar.url, load, {
      scenario: 'best case: GET 100 jobs with If-None-Match, nothing changed',
      baseline: 'bare node:http sending 304',
      threshold: { atLeast: 0.6 },
    });
  },
};
