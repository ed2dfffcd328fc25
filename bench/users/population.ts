import Sqlite from 'better-sqlite3';
import { until } from '../../test/support/until.ts';
import { captureResponse, startBareHttp } from '../baselines.ts';
import type { Bench } from '../benchmark.ts';
import { type BenchServer, startBursar, unlimitedConfig } from '../bursar.ts';
import { createReaders, type Reader } from '../readers.ts';
import { type StoredJob, seedJobs } from '../seed.ts';
import { smallZip } from '../submissions.ts';
import type { Background } from './background.ts';
import type { QuestionGroup } from './reads.ts';
import type { Users } from './users.ts';

/** A server with many users who have jobs. */
export interface Population {
  bursar: BenchServer;
  readers: readonly Reader[];
  jobs: readonly (StoredJob & { token: string })[];
}

/** More jobs can run at the same time than are submitted in a second. */
const engineCores = 64;

/** The shipped configuration, in which no job waits for a core. */
export function runningConfig() {
  const config = unlimitedConfig();
  const hpc_one = { ...config.systems.hpc_one, engine: { kind: 'local', cores: engineCores } };
  return { ...config, systems: { ...config.systems, hpc_one } };
}

export async function startPopulation(bench: Bench, users: number, jobsPerUser: number): Promise<Population> {
  const bursar = await startBursar(bench, { config: runningConfig() });
  bench.log(`creating ${users.toLocaleString('en')} users with ${jobsPerUser.toLocaleString('en')} jobs each`);
  const readers = await createReaders(bursar, users);
  return { bursar, readers, jobs: seedFor(bursar, readers, jobsPerUser) };
}

/** Each user gets a job in turn. */
export function seedFor({ databaseFile }: BenchServer, readers: readonly Reader[], jobsPerUser: number) {
  const readerOf = (index: number) => readers[index % readers.length] ?? { userId: '', token: '' };
  const jobs = seedJobs(databaseFile, {
    jobs: readers.length * jobsPerUser,
    ownerOf: (index) => readerOf(index).userId,
  });
  return jobs.map((job, index) => ({ ...job, token: readerOf(index).token }));
}

/** Random reads of random users: half of them of one job, the others of the user's list and quotas. */
export function mixedReads({ readers, jobs }: Population): QuestionGroup[] {
  return [
    { weight: 50, questions: jobs.map(({ path, token }) => ({ path, token })) },
    { weight: 30, questions: readers.map(({ token }) => ({ path: '/jobs/', token })) },
    { weight: 20, questions: readers.map(({ token }) => ({ path: '/quotas/', token })) },
  ];
}

/** Starts a bare `node:http` server that sends the responses of one user to everybody. */
export async function startMixedBaseline(bench: Bench, { bursar, jobs }: Population): Promise<string> {
  const [job] = jobs;
  if (job === undefined) throw new Error('there are no jobs');
  const headers = { authorization: `Bearer ${job.token}` };
  const capture = (path: string) => captureResponse(bursar.url + path, headers);
  const paths = { '/jobs/': await capture('/jobs/'), '/quotas/': await capture('/quotas/') };
  return await startBareHttp(bench, { paths, other: await capture(job.path) });
}

/** Jobs that are submitted by random users, dispatched and run. */
export async function createSubmitter(bench: Bench, users: Users) {
  const zipFile = await smallZip(bench);
  const payload = { command: 'true', runtime: '0.1', title: 'background' };
  const headers = { 'content-disposition': 'attachment; filename=job.zip', payload: JSON.stringify(payload) };

  async function start({ bursar, readers }: Population, perSecond: number): Promise<Background<number>> {
    const tokens = readers.map(({ token }) => token);
    return await users.submit({ url: bursar.url, tokens, perSecond, path: '/jobs/hpc_one/', headers, zipFile });
  }

  return {
    start,
    /** Runs `measure` while jobs are submitted, and then waits for their end, so that the next measurement begins anew. */
    async during<T>(population: Population, perSecond: number, measure: () => Promise<T>): Promise<T> {
      const submissions = await start(population, perSecond);
      const result = await measure();
      await submissions.stop();
      await waitUntilAllEnded(population);
      return result;
    },
  };
}

export async function waitUntilAllEnded({ bursar }: Population): Promise<void> {
  const database = new Sqlite(bursar.databaseFile, { readonly: true });
  const findUnfinished = database.prepare('select 1 from jobs where terminal = 0 limit 1');
  try {
    await until('the end of all jobs', () => (findUnfinished.get() === undefined ? true : undefined), 300);
  } finally {
    database.close();
  }
}
