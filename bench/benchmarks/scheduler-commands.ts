import { setTimeout as sleep } from 'node:timers/promises';
import type { Benchmark } from '../benchmark.ts';
import { readCounter, readerId, startBursar } from '../bursar.ts';
import { seedJobs } from '../seed.ts';
import { queueJobs, slurmConfig, startSlurm } from '../slurm-queue.ts';

const pollIntervalSeconds = 0.5;
const jobCount = 100;

export const schedulerCommands: Benchmark = {
  name: 'scheduler-commands',
  requires: ['Slurm'],
  async run(bench) {
    const { fewReaders, manyReaders, commandCountSeconds } = bench.size;
    const cluster = await startSlurm(bench);
    const engineJobs = queueJobs(bench, cluster, jobCount);
    const bursar = await startBursar(bench, { config: slurmConfig(cluster, pollIntervalSeconds) });
    const seed = { jobs: engineJobs.length, ownerOf: () => readerId, engineJobs };
    const stored = seedJobs(bursar.databaseFile, { ...seed, statusOf: () => ({ state: 'queued' }) });
    const paths = ['/jobs/', '/quotas/', '/hpc/', ...stored.map(({ path }) => path)];

    const readCommandCount = () => readCounter(bursar, 'bursar_scheduler_commands_total');
    const commandsPerMinute = (connections: number) => async () => {
      const load = { paths, headers: bursar.auth, connections, seconds: commandCountSeconds, status: 200 };
      const [before, startedAt] = [await readCommandCount(), performance.now()];
      // The load may end a little later than the sleep, so the rate uses the time that has really passed.
      await Promise.all([bench.loadGenerator.rate({ ...load, url: bursar.url }), sleep(commandCountSeconds * 1000)]);
      const minutes = (performance.now() - startedAt) / 60_000;
      return ((await readCommandCount()) - before) / minutes;
    };
    await bench.compare({
      scenario: `scheduler commands a minute with ${manyReaders.toLocaleString('en')} busy readers`,
      baseline: `with ${fewReaders}`,
      unit: 'commands/min',
      threshold: { equalWithin: 0.1 },
      ours: commandsPerMinute(manyReaders),
      theirs: commandsPerMinute(fewReaders),
    });
  },
};
