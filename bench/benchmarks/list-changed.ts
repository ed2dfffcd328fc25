import type { Benchmark } from '../benchmark.ts';
import { startBursar } from '../bursar.ts';
import { createReaders } from '../readers.ts';
import { seedJobs } from '../seed.ts';
import { captureResponse, startBareHttp } from '../yardsticks.ts';

const path = '/jobs/';
const connections = 16;
const jobsPerReader = 100;

export const listChanged: Benchmark = {
  name: 'list-changed',
  async run(bench) {
    const bursar = await startBursar(bench);
    const readers = await createReaders(bursar, 2 * connections);
    const ownerOf = (index: number) => readers[index % readers.length]?.userId ?? '';
    const jobs = seedJobs(bursar.databaseFile, { jobs: jobsPerReader * readers.length, ownerOf });
    const callers = readers.map(({ userId, token }, index) => {
      const { id = 0, json = '' } = jobs[index] ?? {};
      return { token, owner: userId, job: id, json: [json, json.replace('simulation', 'SIMULATION')] as const };
    });
    const [{ token } = { token: '' }] = readers;
    const headers = { authorization: `Bearer ${token}` };
    const bare = await startBareHttp(bench, await captureResponse(bursar.url + path, headers));
    const change = { database: bursar.databaseFile, callers };
    const load = { paths: [path], headers, connections, seconds: bench.size.seconds, status: 200, change };
    await bench.compare({
      what: 'GET 100 jobs, one changed before each read',
      yardstick: 'bare node:http, same bytes, same changes',
      unit: 'requests/s',
      bar: { atLeast: 0.35 },
      ours: () => bench.loadGenerator.rate({ ...load, url: bursar.url }),
      theirs: () => bench.loadGenerator.rate({ ...load, url: bare }),
    });
  },
};
