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
    const yardstickServer = await start('yardstick');
    await submitOne(yardstickServer, readFileSync(zip));
    await yardstickServer.stop();
    const rawRate = await startRawSubmissions(bench, {
      database: postgres.url('yardstick'),
      zip: null,
      concurrency: clientCount,
    });
    const bursar = await start('bursar');
    await bench.compare({
      what: `POST a job with a 10 kB zip on PostgreSQL, ${clientCount} clients`,
      yardstick: 'the same rows, including the zip, by SQL through pg',
      unit: 'jobs/s',
      bar: { atLeast: 0.6 },
      ours: () => bench.loadGenerator.rate(submissionLoad(bench, bursar, zip)),
      theirs: () => rawRate(bench.size.seconds),
      warmUpRounds: warmUpRounds,
    });
  },
};
