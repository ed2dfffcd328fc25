import { readFileSync } from 'node:fs';
import type { Benchmark } from '../benchmark.ts';
import { stalledSlurmConfig, startBursar } from '../bursar.ts';
import { temporaryFolder } from '../folders.ts';
import { clientCount, smallZip, submissionLoad, submitOne, warmUpRounds } from '../submissions.ts';
import { startRawSubmissions } from '../yardsticks.ts';

export const submit: Benchmark = {
  name: 'submit',
  async run(bench) {
    const zip = await smallZip(bench);
    const config = stalledSlurmConfig(bench);
    // The yardstick writes the same rows into books like those of the server, which has been told to stop; the zip it writes
    // to a file.
    const other = await startBursar(bench, { config });
    await submitOne(other, readFileSync(zip));
    await other.stop();
    const folder = temporaryFolder(bench, 'raw');
    const byHand = await startRawSubmissions(bench, {
      database: other.databaseFile,
      zip: { file: zip, folder },
      concurrency: 1,
    });
    const bursar = await startBursar(bench, { config });
    await bench.compare({
      what: `POST a job with a 10 kB zip, ${clientCount} clients`,
      yardstick: 'by hand: write and fsync 10 kB, one fsynced SQLite transaction of the same rows',
      unit: 'jobs/s',
      bar: { atLeast: 0.8 },
      ours: () => bench.loadGenerator.rate(submissionLoad(bench, bursar, zip)),
      theirs: () => byHand(bench.size.seconds),
      warmUpRounds: warmUpRounds,
    });
  },
};
