import { readFileSync } from 'node:fs';
import { createCaller } from '../../test/support/api.ts';
import { startRawSubmissions } from '../baselines.ts';
import type { Benchmark } from '../benchmark.ts';
import { stalledSlurmConfig, startBursar } from '../bursar.ts';
import { clientCount, smallZip, submissionLoad, submitOne, warmUpRounds } from '../submissions.ts';

export const submit: Benchmark = {
  name: 'submit',
  async run(bench) {
    const zip = await smallZip(bench);
    const config = stalledSlurmConfig(bench);
    // The baseline inserts the same rows into the database of a stopped server, and writes the zip to a file.
    const start = () => startBursar(bench, { config });
    const [baselineServer, bursar] = await Promise.all([start(), start()]);
    await submitOne(createCaller(baselineServer.url, baselineServer.userToken), readFileSync(zip));
    await baselineServer.stop();
    const folder = bench.temporaryFolder('raw');
    const rawRate = await startRawSubmissions(bench, {
      database: baselineServer.databaseFile,
      zip: { file: zip, folder },
      concurrency: 1,
    });
    await bench.compare({
      scenario: `POST a job with a 10 kB zip, ${clientCount} clients`,
      baseline: 'directly: write and fsync 10 kB, one fsynced SQLite transaction of the same rows',
      unit: 'jobs/s',
      threshold: { atLeast: 0.8 },
      ours: () => bench.loadGenerator.rate(submissionLoad(bench, bursar, zip)),
      theirs: () => rawRate(bench.size.seconds),
      warmUpRounds,
    });
  },
};
