import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { squeueCommand } from '../../src/engines/slurm/squeue.ts';
import { until } from '../../test/support/until.ts';
import type { Benchmark } from '../benchmark.ts';
import { type BenchServer, readCounter, readerId, startBursar } from '../bursar.ts';
import { seedJobs } from '../seed.ts';
import { queueJobs, slurmConfig, startSlurm } from '../slurm-queue.ts';

const run = promisify(execFile);

/** Waits for the next round of the watcher; returns its duration in seconds. */
async function measureNextRound(bursar: BenchServer): Promise<number> {
  const readTotals = async () => ({
    rounds: await readCounter(bursar, 'bursar_watch_rounds_total'),
    seconds: await readCounter(bursar, 'bursar_watch_seconds_total'),
  });
  const before = await readTotals();
  return await until('a round of the watcher', async () => {
    const { rounds, seconds } = await readTotals();
    return rounds > before.rounds ? (seconds - before.seconds) / (rounds - before.rounds) : undefined;
  });
}

export const watcherTick: Benchmark = {
  name: 'watcher-tick',
  requires: ['Slurm'],
  async run(bench) {
    const cluster = await startSlurm(bench);
    const engineJobs = queueJobs(bench, cluster, bench.size.activeJobs);
    const bursar = await startBursar(bench, { config: slurmConfig(cluster, 1) });
    const seed = { jobs: engineJobs.length, ownerOf: () => readerId, engineJobs };
    seedJobs(bursar.databaseFile, { ...seed, statusOf: () => ({ state: 'queued' }) });
    const [program, ...args] = squeueCommand().argv;
    const count = bench.size.activeJobs.toLocaleString('en');
    await bench.compare({
      scenario: `watcher tick with ${count} active jobs, none changed`,
      baseline: `one squeue of ${count} jobs`,
      unit: 's',
      threshold: { atMost: 1.5 },
      ours: () => measureNextRound(bursar),
      async theirs() {
        // Measured right after a round, so that the next one does not overlap.
        await measureNextRound(bursar);
        const startedAt = performance.now();
        await run(program, args, { env: { ...process.env, ...cluster.env }, maxBuffer: 1e8 });
        return (performance.now() - startedAt) / 1000;
      },
    });
  },
};
