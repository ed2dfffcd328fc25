import type { Benchmark } from '../benchmark.ts';
import { startBursar } from '../bursar.ts';
import { fillBooks } from '../fill.ts';
import { newReaders } from '../readers.ts';
import { answerOf, bareHttp } from '../yardsticks.ts';

const path = '/jobs/';
const connections = 16;
const jobsEach = 100;

export const listChanged: Benchmark = {
  name: 'list-changed',
  async run(bench) {
    const bursar = await startBursar(bench);
    const readers = await newReaders(bursar, 2 * connections);
    const ownerOf = (index: number) => readers[index % readers.length]?.userId ?? '';
    const jobs = fillBooks(bursar.books, { jobs: jobsEach * readers.length, ownerOf });
    const callers = readers.map(({ userId, token }, index) => {
      const { id = 0, json = '' } = jobs[index] ?? {};
      return { token, owner: userId, job: id, json: [json, json.replace('simulation', 'SIMULATION')] as const };
    });
    const [{ token } = { token: '' }] = readers;
    const headers = { authorization: `Bearer ${token}` };
    const bare = await bareHttp(bench, await answerOf(bursar.url + path, headers));
    const change = { database: bursar.books, callers };
    const load = { paths: [path], headers, connections, seconds: bench.size.seconds, status: 200, change };
    await bench.compare({
      what: 'GET 100 jobs, one changed before each read',
      yardstick: 'bare node:http, same bytes, same changes',
      unit: 'requests/s',
      bar: { atLeast: 0.35 },
      ours: () => bench.loader.rate({ ...load, url: bursar.url }),
      theirs: () => bench.loader.rate({ ...load, url: bare }),
    });
  },
};
