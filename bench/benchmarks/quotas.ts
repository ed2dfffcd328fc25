import type { Benchmark } from '../benchmark.ts';
import { startBursar } from '../bursar.ts';
import { captureResponse, startBareHttp } from '../yardsticks.ts';

const path = '/quotas/';

export const quotas: Benchmark = {
  name: 'quotas',
  async run(bench) {
    const bursar = await startBursar(bench);
    const bare = await startBareHttp(bench, await captureResponse(bursar.url + path, bursar.auth));
    const load = { paths: [path], headers: bursar.auth, connections: 16, seconds: bench.size.seconds, status: 200 };
    await bench.compare({
      what: 'GET /quotas/',
      yardstick: 'bare node:http, same bytes',
      unit: 'requests/s',
      bar: { atLeast: 0.65 },
      ours: () => bench.loadGenerator.rate({ ...load, url: bursar.url }),
      theirs: () => bench.loadGenerator.rate({ ...load, url: bare }),
    });
  },
};
