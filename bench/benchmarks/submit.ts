import { readFileSync } from 'node:fs';
import type { Benchmark } from '../benchmark.ts';
import { stalledConfig, startBursar } from '../bursar.ts';
import { temporaryFolder } from '../folders.ts';
import { clients, smallZip, submissionLoad, submitOne, warmUps } from '../submissions.ts';
import { rawSubmissions } from '../yardsticks.ts';

export const submit: Benchmark = {
  name: 'submit',
  async run(bench) {
    const zip = await smallZip(bench);
    const config = stalledConfig(bench);
    // The yardstick writes the same rows into books like those of the server, which has been told to stop; the zip it writes
    // to a file.
    const other = await startBursar(bench, { config });
    await submitOne(other, readFileSync(zip));
    await other.stop();
    const folder = temporaryFolder(bench, 'raw');
    const byHand = await rawSubmissions(bench, { database: other.books, zip: { file: zip, folder }, atOnce: 1 });
    const bursar = await startBursar(bench, { config });
    await bench.compare({
      what: `POST a job with a 10 kB zip, ${clients} clients`,
      yardstick: 'by hand: write and fsync 10 kB, one fsynced SQLite transaction of the same rows',
      unit: 'jobs/s',
      bar: { atLeast: 0.8 },
      ours: () => bench.loader.rate(submissionLoad(bench, bursar, zip)),
      theirs: () => byHand(bench.size.seconds),
      warmUps,
    });
  },
};
