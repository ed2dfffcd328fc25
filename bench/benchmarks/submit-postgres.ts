import { readFileSync } from 'node:fs';
import { createCaller } from '../../test/support/api.ts';
import { startPostgres } from '../../test/support/postgres.ts';
import { startRawSubmissions } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { stalledSlurmConfig, startBursar } from '../bursar.ts';
import { clientCount, smallZip, submissionLoad, submitOne, warmUpRounds } from '../submissions.ts';

export const submitPostgres: Benchmark = {
  name: 'submit-postgres',
  requires: ['PostgreSQL'],
  async run(bench) {
    const postgres = await startPostgres({ durable: true });
    bench.defer(postgres.close);
    const zip = await smallZip(bench);
    const start = async (name: string) => {
      const env = { BURSAR_DATABASE_URL: await postgres.database(name) };
      return await startBursar(bench, { config: stalledSlurmConfig(bench), env });
    };
    const [baselineServer, bursar] = await Promise.all([start('baseline'), start('bursar')]);
    await submitOne(createCaller(baselineServer.url, baselineServer.userToken), readFileSync(zip));
    await baselineServer.stop();
    const rawRate = await startRawSubmissions(bench, {
      database: postgres.url('baseline'),
      zip: null,
      concurrency: clientCount,
    });
    await bench.compare({
      scenario: `POST a job with a 10 kB zip on PostgreSQL, ${clientCount} clients`,
      baseline: 'the same rows, including the zip, by SQL through pg',
      unit: 'jobs/s',
      threshold: { atLeast: 0.6 },
      ours: () => bench.loadGenerator.rate(submissionLoad(bench, bursar, zip)),
      theirs: () => rawRate(bench.size.seconds),
      warmUpRounds,
    });
  },
};
