import type { Benchmark } from '../benchmark.ts';
import { readerId, startBursar } from '../bursar.ts';
import { seedJobs } from '../seed.ts';
import { queueJobs, slurmConfig } from '../slurm-queue.ts';
import { startSlurmrestd } from '../slurmrestd.ts';

export const compareSlurmrestd: Benchmark = {
  name: 'slurmrestd',
  requires: ['Slurm', 'slurmrestd'],
  async run(bench) {
    const { seconds, queuedJobs } = bench.size;
    const slurmrestd = await startSlurmrestd(bench);
    const queued = queueJobs(bench, slurmrestd.cluster, queuedJobs);
    const bursar = await startBursar(bench, { config: slurmConfig(slurmrestd.cluster, 1) });
    const seed = { jobs: queued.length, ownerOf: () => readerId, engineJobs: queued };
    const jobs = seedJobs(bursar.databaseFile, { ...seed, statusOf: () => ({ state: 'queued' }) });
    const load = { connections: 16, seconds, status: 200 };
    const ours = (paths: string[]) => () =>
      bench.loadGenerator.rate({ ...load, url: bursar.url, headers: bursar.auth, paths });
    const theirs =
      (paths: string[], overrides = {}) =>
      () =>
        bench.loadGenerator.rate({ ...load, ...overrides, url: slurmrestd.url, headers: slurmrestd.auth, paths });
    // slurmrestd processes one list at a time and takes seconds for it: with 16 connections none would finish in a round.
    const slowLoad = { connections: 1, seconds: seconds === null ? null : seconds * 3 };
    const count = queuedJobs.toLocaleString('en');
    await bench.compare({
      scenario: `GET one job, with ${count} in Slurm`,
      baseline: 'slurmrestd GET one job',
      unit: 'requests/s',
      threshold: { atLeast: 6 },
      ours: ours(jobs.map(({ path }) => path)),
      theirs: theirs(queued.map(({ ref }) => `/slurm/v0.0.38/job/${ref}`)),
    });
    await bench.compare({
      scenario: `GET ${count} jobs`,
      baseline: 'slurmrestd GET jobs',
      unit: 'requests/s',
      threshold: { atLeast: 50 },
      ours: ours(['/jobs/']),
      theirs: theirs(['/slurm/v0.0.38/jobs'], slowLoad),
    });
  },
};
