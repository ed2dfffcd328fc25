import type { Bench, Benchmark } from '../benchmark.ts';
import { type BenchedBursar, reader, startBursar } from '../bursar.ts';
import { fillBooks, type StoredJob } from '../fill.ts';

const jobsOfReader = 200;
const perPage = 100;

/** The reader's jobs lie scattered among those of a thousand others. */
async function startFilled(bench: Bench, jobs: number): Promise<{ bursar: BenchedBursar; jobs: StoredJob[] }> {
  const bursar = await startBursar(bench);
  const gap = Math.floor(jobs / jobsOfReader);
  const ownerOf = (index: number) => (index % gap === 0 ? reader : String(500_000 + (index % 1000)));
  bench.say(`storing ${jobs.toLocaleString('en')} jobs`);
  return { bursar, jobs: fillBooks(bursar.books, { jobs, ownerOf }, (owner) => owner === reader) };
}

/** Each asked for in another way, so that no answer can be kept from before: a time since when nothing was left out. */
function pagePaths(jobs: readonly StoredJob[]): string[] {
  return jobs.slice(0, perPage).map(({ id }) => {
    const cursor = Buffer.from(`after:${id - 1}`).toString('base64url');
    return `/jobs/?limit=${perPage}&cursor=${cursor}`;
  });
}

export const manyStored: Benchmark = {
  name: 'many-stored',
  async run(bench) {
    const { size, loader } = bench;
    const many = await startFilled(bench, size.storedJobs);
    const few = await startFilled(bench, size.fewStoredJobs);
    const rate = ({ bursar }: typeof many, paths: readonly string[]) =>
      loader.rate({
        url: bursar.url,
        paths,
        headers: bursar.auth,
        connections: 16,
        seconds: size.seconds,
        status: 200,
      });
    const stored = `with ${size.storedJobs.toLocaleString('en')} jobs stored`;
    const yardstick = `the same with ${size.fewStoredJobs.toLocaleString('en')}`;
    const row = { yardstick, unit: 'requests/s', bar: { atLeast: 0.85 } };
    const one = (side: typeof many) =>
      rate(
        side,
        side.jobs.map(({ path }) => path),
      );
    const page = (side: typeof many) => rate(side, pagePaths(side.jobs));
    await bench.compare({ ...row, what: `GET one job, ${stored}`, ours: () => one(many), theirs: () => one(few) });
    await bench.compare({
      ...row,
      what: `GET a page of 100, ${stored}`,
      ours: () => page(many),
      theirs: () => page(few),
    });
  },
};
