import type { Benchmark } from '../benchmark.ts';
import { startBursar } from '../bursar.ts';
import { answerOf, bareHttp } from '../yardsticks.ts';

const path = '/quotas/';

export const quotas: Benchmark = {
  name: 'quotas',
  async run(bench) {
    const bursar = await startBursar(bench);
    const bare = await bareHttp(bench, await answerOf(bursar.url + path, bursar.auth));
    const load = { paths: [path], headers: bursar.auth, connections: 16, seconds: bench.size.seconds, status: 200 };
    await bench.compare({
      what: 'GET /quotas/',
      yardstick: 'bare node:http, same bytes',
      unit: 'requests/s',
      bar: { atLeast: 0.65 },
      ours: () => bench.loader.rate({ ...load, url: bursar.url }),
      theirs: () => bench.loader.rate({ ...load, url: bare }),
    });
  },
};
