import type { Bench, Benchmark } from '../benchmark.ts';
import { type BenchedBursar, reader, startBursar } from '../bursar.ts';
import { fillBooks, type StoredJob } from '../fill.ts';
import type { JobChanges } from '../load.ts';

const jobsOfReader = 200;
const perPage = 100;
const lengths = 20;
/** Somebody else, whose job changes before each read: so nothing is answered from memory that the books could tell. */
const other = '500001';

interface Filled {
  bursar: BenchedBursar;
  jobs: StoredJob[];
  change: JobChanges;
}

/** The reader's jobs lie scattered among those of a thousand others. */
async function startFilled(bench: Bench, jobs: number): Promise<Filled> {
  const bursar = await startBursar(bench);
  const gap = Math.floor(jobs / jobsOfReader);
  const ownerOf = (index: number) => (index % gap === 0 ? reader : String(500_000 + (index % 1000)));
  bench.say(`storing ${jobs.toLocaleString('en')} jobs`);
  const stored = fillBooks(bursar.books, { jobs, ownerOf }, (owner) => owner === reader || owner === other);
  const changing = stored.find(({ owner }) => owner === other);
  if (changing === undefined) throw new Error('there is nobody else');
  const { id, json } = changing;
  const caller = { token: bursar.userToken, owner: other, job: id, json: [json, json.replace('sim', 'SIM')] as const };
  return {
    bursar,
    jobs: stored.filter(({ owner }) => owner === reader),
    change: { database: bursar.books, callers: [caller] },
  };
}

/** So many different ones, of 81 to 100 jobs, that the answers to them do not fit into the memory for answers. */
function pagePaths(jobs: readonly StoredJob[]): string[] {
  return jobs.slice(0, perPage).flatMap(({ id }) => {
    const cursor = Buffer.from(`after:${id - 1}`).toString('base64url');
    return Array.from({ length: lengths }, (_, less) => `/jobs/?limit=${perPage - less}&cursor=${cursor}`);
  });
}

export const manyStored: Benchmark = {
  name: 'many-stored',
  async run(bench) {
    const { size, loader } = bench;
    const many = await startFilled(bench, size.storedJobs);
    const few = await startFilled(bench, size.fewStoredJobs);
    const rate = ({ bursar, change }: Filled, paths: readonly string[]) =>
      loader.rate({
        url: bursar.url,
        paths,
        change,
        headers: bursar.auth,
        connections: 16,
        seconds: size.seconds,
        status: 200,
      });
    const stored = `with ${size.storedJobs.toLocaleString('en')} jobs stored`;
    const yardstick = `the same with ${size.fewStoredJobs.toLocaleString('en')}`;
    const row = { yardstick, unit: 'requests/s', bar: { atLeast: 0.85 } };
    const one = (side: Filled) =>
      rate(
        side,
        side.jobs.map(({ path }) => path),
      );
    const page = (side: Filled) => rate(side, pagePaths(side.jobs));
    await bench.compare({ ...row, what: `GET one job, ${stored}`, ours: () => one(many), theirs: () => one(few) });
    await bench.compare({
      ...row,
      what: `GET a page of 100, ${stored}`,
      ours: () => page(many),
      theirs: () => page(few),
    });
  },
};
