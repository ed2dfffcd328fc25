import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { squeueCommand } from '../../src/engines/slurm/squeue.ts';
import { until } from '../../test/support/until.ts';
import type { Benchmark } from '../benchmark.ts';
import { type BenchServer, readerId, startBursar } from '../bursar.ts';
import { readCounter } from '../metrics.ts';
import { seedJobs } from '../seed.ts';
import { queueJobs, slurmConfig, startSlurm } from '../slurm-queue.ts';

const run = promisify(execFile);

/** How long the next round of the watcher takes. */
async function measureNextRound(bursar: BenchServer): Promise<number> {
  const look = async () => ({
    rounds: await readCounter(bursar, 'bursar_watch_rounds_total'),
    seconds: await readCounter(bursar, 'bursar_watch_seconds_total'),
  });
  const before = await look();
  return await until('a round of the watcher', async () => {
    const { rounds, seconds } = await look();
    return rounds > before.rounds ? (seconds - before.seconds) / (rounds - before.rounds) : undefined;
  });
}

export const watcherTick: Benchmark = {
  name: 'watcher-tick',
  peers: ['Slurm'],
  async run(bench) {
    const cluster = await startSlurm(bench);
    const engineJobs = queueJobs(bench, cluster, bench.size.activeJobs);
    const bursar = await startBursar(bench, { config: slurmConfig(cluster, 1) });
    const filling = { jobs: engineJobs.length, ownerOf: () => readerId, engineJobs };
    seedJobs(bursar.databaseFile, { ...filling, statusOf: () => ({ state: 'queued' }) });
    const [program, ...args] = squeueCommand().argv;
    const count = bench.size.activeJobs.toLocaleString('en');
    await bench.compare({
      what: `watcher tick with ${count} active jobs, none changed`,
      yardstick: `one squeue of ${count} by hand`,
      unit: 's',
      bar: { atMost: 1.5 },
      ours: () => measureNextRound(bursar),
      async theirs() {
        // Right after a round: the next one is a while away.
        await measureNextRound(bursar);
        const begunAt = performance.now();
        await run(program, args, { env: { ...process.env, ...cluster.env }, maxBuffer: 1e8 });
        return (performance.now() - begunAt) / 1000;
      },
    });
  },
};
