import { readFileSync } from 'node:fs';
import { startPostgres } from '../../test/support/postgres.ts';
import type { Benchmark } from '../benchmark.ts';
import { stalledSlurmConfig, startBursar } from '../bursar.ts';
import { clientCount, smallZip, submissionLoad, submitOne, warmUpRounds } from '../submissions.ts';
import { startRawSubmissions } from '../yardsticks.ts';

export const submitPostgres: Benchmark = {
  name: 'submit-postgres',
  peers: ['PostgreSQL'],
  async run(bench) {
    const postgres = await startPostgres({ durable: true });
    bench.defer(postgres.close);
    const zip = await smallZip(bench);
    const start = async (name: string) => {
      const env = { BURSAR_DATABASE_URL: await postgres.database(name) };
      return await startBursar(bench, { config: stalledSlurmConfig(bench), env });
    };
    const other = await start('by_hand');
    await submitOne(other, readFileSync(zip));
    await other.stop();
    const byHand = await startRawSubmissions(bench, {
      database: postgres.url('by_hand'),
      zip: null,
      concurrency: clientCount,
    });
    const bursar = await start('bursar');
    await bench.compare({
      what: `POST a job with a 10 kB zip on PostgreSQL, ${clientCount} clients`,
      yardstick: 'the same rows by hand-written SQL through pg, the zip among them',
      unit: 'jobs/s',
      bar: { atLeast: 0.6 },
      ours: () => bench.loadGenerator.rate(submissionLoad(bench, bursar, zip)),
      theirs: () => byHand(bench.size.seconds),
      warmUpRounds: warmUpRounds,
    });
  },
};
