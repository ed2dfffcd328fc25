import { compareWithBareHttp } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { startBursar } from '../bursar.ts';
import { createReaders } from '../readers.ts';
import { seedJobs } from '../seed.ts';

const path = '/jobs/';
/** More than the connections, so that no caller has two requests in flight. */
const readerCount = 32;
const jobsPerReader = 100;

export const listChanged: Benchmark = {
  name: 'list-changed',
  async run(bench) {
    const bursar = await startBursar(bench);
    const readers = await createReaders(bursar, readerCount);
    const ownerOf = (index: number) => readers[index % readers.length]?.userId ?? '';
    const jobs = seedJobs(bursar.databaseFile, { jobs: jobsPerReader * readers.length, ownerOf });
    const callers = readers.map(({ userId, token }, index) => {
      const { id = 0, json = '' } = jobs[index] ?? {};
      return { token, owner: userId, job: id, json: [json, json.replace('simulation', 'SIMULATION')] as const };
    });
    const [{ token } = { token: '' }] = readers;
    const headers = { authorization: `Bearer ${token}` };
    const change = { database: bursar.databaseFile, callers };
    const load = { paths: [path], headers, status: 200, change };
    await compareWithBareHttp(bench, bursar.url, load, {
      scenario: 'GET 100 jobs, one changed before each read',
      baseline: 'bare node:http, same bytes, same changes',
      threshold: { atLeast: 0.35 },
    });
  },
};
