import { readFileSync } from 'node:fs';
import { startPostgres } from '../../test/support/postgres.ts';
import type { Benchmark } from '../benchmark.ts';
import { stalledConfig, startBursar } from '../bursar.ts';
import { clients, smallZip, submissionLoad, submitOne, warmUps } from '../submissions.ts';
import { rawSubmissions } from '../yardsticks.ts';

export const submitPostgres: Benchmark = {
  name: 'submit-postgres',
  peers: ['PostgreSQL'],
  async run(bench) {
    const postgres = await startPostgres({ durable: true });
    bench.defer(postgres.close);
    const zip = await smallZip(bench);
    const start = async (name: string) => {
      const env = { BURSAR_DATABASE_URL: await postgres.database(name) };
      return await startBursar(bench, { config: stalledConfig(bench), env });
    };
    const other = await start('by_hand');
    await submitOne(other, readFileSync(zip));
    await other.stop();
    const byHand = await rawSubmissions(bench, { database: postgres.url('by_hand'), zip: null, atOnce: clients });
    const bursar = await start('bursar');
    await bench.compare({
      what: `POST a job with a 10 kB zip on PostgreSQL, ${clients} clients`,
      yardstick: 'the same rows by hand-written SQL through pg, the zip among them',
      unit: 'jobs/s',
      bar: { atLeast: 0.6 },
      ours: () => bench.loader.rate(submissionLoad(bench, bursar, zip)),
      theirs: () => byHand(bench.size.seconds),
      warmUps,
    });
  },
};
