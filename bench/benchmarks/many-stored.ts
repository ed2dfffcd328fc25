import type { Bench, Benchmark } from '../benchmark.ts';
import { type BenchServer, readerId, startBursar } from '../bursar.ts';
import type { JobChanges } from '../load.ts';
import { type StoredJob, seedJobs } from '../seed.ts';

const readerJobCount = 200;
const maxPageSize = 100;
const pageSizeCount = 20;
/** Another user, whose job changes before each read, so that no read finds the pages of SQLite in its cache. */
const otherOwnerId = '500001';

interface SeededServer {
  bursar: BenchServer;
  jobs: StoredJob[];
  change: JobChanges;
}

/** The reader's jobs are spread evenly among the jobs of a thousand other users. */
async function startSeeded(bench: Bench, jobs: number): Promise<SeededServer> {
  const bursar = await startBursar(bench);
  const gap = Math.floor(jobs / readerJobCount);
  const ownerOf = (index: number) => (index % gap === 0 ? readerId : String(500_000 + (index % 1000)));
  bench.log(`inserting ${jobs.toLocaleString('en')} jobs`);
  const stored = seedJobs(
    bursar.databaseFile,
    { jobs, ownerOf },
    (owner) => owner === readerId || owner === otherOwnerId,
  );
  const changedJob = stored.find(({ owner }) => owner === otherOwnerId);
  if (changedJob === undefined) throw new Error('the other user has no job');
  const { id, json } = changedJob;
  const caller = {
    token: bursar.userToken,
    owner: otherOwnerId,
    job: id,
    json: [json, json.replace('sim', 'SIM')] as const,
  };
  return {
    bursar,
    jobs: stored.filter(({ owner }) => owner === readerId),
    change: { database: bursar.databaseFile, callers: [caller] },
  };
}

/** Many different pages of 81 to 100 jobs. */
function pagePaths(jobs: readonly StoredJob[]): string[] {
  return jobs.slice(0, maxPageSize).flatMap(({ id }) => {
    const cursor = Buffer.from(`after:${id - 1}`).toString('base64url');
    return Array.from(
      { length: pageSizeCount },
      (_, difference) => `/jobs/?limit=${maxPageSize - difference}&cursor=${cursor}`,
    );
  });
}

export const manyStored: Benchmark = {
  name: 'many-stored',
  async run(bench) {
    const { size, loadGenerator } = bench;
    const [many, few] = await Promise.all([
      startSeeded(bench, size.storedJobs),
      startSeeded(bench, size.fewStoredJobs),
    ]);
    const rate = ({ bursar, change }: SeededServer, paths: readonly string[]) =>
      loadGenerator.rate({
        url: bursar.url,
        paths,
        change,
        headers: bursar.auth,
        connections: 16,
        seconds: size.seconds,
        status: 200,
      });
    const stored = `with ${size.storedJobs.toLocaleString('en')} jobs stored`;
    const baseline = `the same with ${size.fewStoredJobs.toLocaleString('en')}`;
    const row = { baseline, unit: 'requests/s', threshold: { atLeast: 0.85 } };
    const rateOneJob = (side: SeededServer) =>
      rate(
        side,
        side.jobs.map(({ path }) => path),
      );
    const ratePages = (side: SeededServer) => rate(side, pagePaths(side.jobs));
    await bench.compare({
      ...row,
      scenario: `GET one job, ${stored}`,
      ours: () => rateOneJob(many),
      theirs: () => rateOneJob(few),
    });
    await bench.compare({
      ...row,
      scenario: `GET a page of 100, ${stored}`,
      ours: () => ratePages(many),
      theirs: () => ratePages(few),
    });
  },
};
