import type { Benchmark } from '../benchmark.ts';
import { startWithJobs } from '../bursar.ts';
import { captureResponse, startBareHttp } from '../yardsticks.ts';

export const oneJob: Benchmark = {
  name: 'one-job',
  async run(bench) {
    const { bursar, jobs } = await startWithJobs(bench, 100);
    const paths = jobs.map(({ path }) => path);
    const bare = await startBareHttp(bench, await captureResponse(`${bursar.url}${paths[0]}`, bursar.auth));
    const load = { paths, headers: bursar.auth, connections: 16, seconds: bench.size.seconds, status: 200 };
    await bench.compare({
      what: 'GET one job',
      yardstick: 'bare node:http, same bytes',
      unit: 'requests/s',
      bar: { atLeast: 0.7 },
      ours: () => bench.loadGenerator.rate({ ...load, url: bursar.url }),
      theirs: () => bench.loadGenerator.rate({ ...load, url: bare }),
    });
  },
};
