import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { squeueCommand } from '../../src/engines/slurm/squeue.ts';
import { until } from '../../test/support/until.ts';
import type { Benchmark } from '../benchmark.ts';
import { type BenchedBursar, reader, startBursar } from '../bursar.ts';
import { fillBooks } from '../fill.ts';
import { counterOf } from '../metrics.ts';
import { queueJobs, slurmConfig, startSlurm } from '../slurm-queue.ts';

const run = promisify(execFile);

/** How long the next round of the watcher takes. */
async function nextRound(bursar: BenchedBursar): Promise<number> {
  const look = async () => ({
    rounds: await counterOf(bursar, 'bursar_watch_rounds_total'),
    seconds: await counterOf(bursar, 'bursar_watch_seconds_total'),
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
    const filling = { jobs: engineJobs.length, ownerOf: () => reader, engineJobs };
    fillBooks(bursar.books, { ...filling, statusOf: () => ({ state: 'queued' }) });
    const [program, ...args] = squeueCommand().argv;
    const count = bench.size.activeJobs.toLocaleString('en');
    await bench.compare({
      what: `watcher tick with ${count} active jobs, none changed`,
      yardstick: `one squeue of ${count} by hand`,
      unit: 's',
      bar: { atMost: 1.5 },
      ours: () => nextRound(bursar),
      async theirs() {
        // Right after a round: the next one is a while away.
        await nextRound(bursar);
        const begunAt = performance.now();
        await run(program, args, { env: { ...process.env, ...cluster.env }, maxBuffer: 1e8 });
        return (performance.now() - begunAt) / 1000;
      },
    });
  },
};
