import { setTimeout as sleep } from 'node:timers/promises';
import { captureResponse, startBareHttp } from '../baselines.ts';
import type { Bench, Benchmark } from '../benchmark.ts';
import { readerId } from '../bursar.ts';
import { download } from '../download.ts';
import { memoryMb, peakMemoryMb, resetPeakMemory } from '../processes.ts';
import { seedJobs } from '../seed.ts';
import { mixedReads, type Population, startPopulation } from '../users/population.ts';
import { startUsers, type Users } from '../users/users.ts';

const path = '/jobs/';
const readsPerSecond = 200;

/** A list of one user, and what it costs the others, who have few jobs. */
export const longList: Benchmark = {
  name: 'long-list',
  async run(bench) {
    const { listedJobs, users: userCount, jobsPerUser } = bench.size;
    const users = startUsers(bench);
    const population = await startPopulation(bench, Math.min(100, userCount), jobsPerUser);
    const { bursar } = population;
    seedJobs(bursar.databaseFile, { jobs: listedJobs, ownerOf: () => readerId });
    const scenario = `list of ${listedJobs.toLocaleString('en')} jobs`;
    await bench.measure({
      scenario,
      baseline: 'memory before',
      unit: 'MB',
      threshold: { atMost: 64 },
      async ours() {
        const beforeMb = memoryMb(bursar.pid);
        resetPeakMemory(bursar.pid);
        await download(bursar.url + path, bursar.auth);
        return peakMemoryMb(bursar.pid) - beforeMb;
      },
    });

    const bareUrl = await startBareHttp(bench, await captureResponse(bursar.url + path, bursar.auth));
    const listRate = (url: string) => async () => {
      const downloads = await users.download({ url: url + path, headers: bursar.auth, concurrency: 1 });
      await sleep((bench.size.seconds ?? 0) * 1000);
      return await downloads.stop();
    };
    await bench.compare({
      scenario,
      baseline: 'bare node:http, same bytes',
      unit: 'lists/s',
      threshold: { atLeast: 0.3 },
      ours: listRate(bursar.url),
      theirs: listRate(bareUrl),
    });
    for (const concurrency of [1, 8]) await measureOthers(bench, users, population, concurrency);
  },
};

/** Measures by how much the lists delay the requests of other users, which arrive at a constant rate. */
async function measureOthers(bench: Bench, users: Users, population: Population, concurrency: number): Promise<void> {
  const { bursar } = population;
  const { listedJobs, seconds } = bench.size;
  const groups = mixedReads(population);
  const readP99 = async () =>
    (await users.read({ url: bursar.url, groups, pace: { perSecond: readsPerSecond }, seconds })).p99Ms;
  await bench.measure({
    scenario: `other users beside ${concurrency} lists of ${listedJobs.toLocaleString('en')} jobs, p99, more than without`,
    baseline: 'the same reads without a list',
    unit: 'ms',
    threshold: { atMost: 50 },
    async ours() {
      const alone = await readP99();
      const lists = await users.download({ url: bursar.url + path, headers: bursar.auth, concurrency });
      const beside = await readP99();
      await lists.stop();
      return beside - alone;
    },
  });
}
