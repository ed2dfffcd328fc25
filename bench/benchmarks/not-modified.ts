import type { Benchmark } from '../benchmark.ts';
import { startWithJobs } from '../bursar.ts';
import { captureResponse, startBareHttp } from '../yardsticks.ts';

const path = '/jobs/';

export const notModified: Benchmark = {
  name: 'not-modified',
  async run(bench) {
    const { bursar } = await startWithJobs(bench, 100);
    const first = await fetch(bursar.url + path, { headers: bursar.auth });
    const headers = { ...bursar.auth, 'if-none-match': first.headers.get('etag') ?? '' };
    const bare = await startBareHttp(bench, await captureResponse(bursar.url + path, headers));
    const load = { paths: [path], headers, connections: 16, seconds: bench.size.seconds, status: 304 };
    await bench.compare({
      what: 'GET 100 jobs with If-None-Match, nothing changed',
      yardstick: 'bare node:http sending 304',
      unit: 'requests/s',
      bar: { atLeast: 0.75 },
      ours: () => bench.loadGenerator.rate({ ...load, url: bursar.url }),
      theirs: () => bench.loadGenerator.rate({ ...load, url: bare }),
    });
  },
};
