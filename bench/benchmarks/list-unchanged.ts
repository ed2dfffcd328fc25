import type { Benchmark } from '../benchmark.ts';
import { startWithJobs } from '../bursar.ts';
import { captureResponse, startBareHttp } from '../yardsticks.ts';

const path = '/jobs/';

export const listUnchanged: Benchmark = {
  name: 'list-unchanged',
  async run(bench) {
    const { bursar } = await startWithJobs(bench, 100);
    const bare = await startBareHttp(bench, await captureResponse(bursar.url + path, bursar.auth));
    const load = { paths: [path], headers: bursar.auth, connections: 16, seconds: bench.size.seconds, status: 200 };
    await bench.compare({
      what: 'GET 100 jobs, nothing changed',
      yardstick: 'bare node:http, same bytes',
      unit: 'requests/s',
      bar: { atLeast: 0.6 },
      ours: () => bench.loadGenerator.rate({ ...load, url: bursar.url }),
      theirs: () => bench.loadGenerator.rate({ ...load, url: bare }),
    });
  },
};
