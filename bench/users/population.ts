import Sqlite from 'better-sqlite3';
import { withDatabase } from '../../test/support/database.ts';
import { until } from '../../test/support/until.ts';
import { captureResponse, startBareHttp } from '../baselines.ts';
import type { Bench } from '../benchmark.ts';
import { type BenchServer, type BenchServerOptions, startBursar, unlimitedConfig } from '../bursar.ts';
import { fillDatabase } from '../fill.ts';
import { smallZip } from '../submissions.ts';
import type { Background } from './background.ts';
import type { QuestionGroup } from './reads.ts';
import type { Users } from './users.ts';

/** A server with many users who have jobs. */
export interface Population {
  bursar: BenchServer;
  tokens: readonly string[];
  jobs: readonly { id: number; path: string; token: string }[];
}

/** More jobs can run at the same time than are submitted in a second. */
const engineCores = 64;

/** The shipped configuration, in which no job waits for a core. */
export function runningConfig() {
  const config = unlimitedConfig();
  const hpc_one = { ...config.systems.hpc_one, engine: { kind: 'local', cores: engineCores } };
  return { ...config, systems: { ...config.systems, hpc_one } };
}

const firstUserId = 600_000;
const otherUsers = { firstUserId: 700_000, users: 1000 };

export interface PopulationOptions {
  /** Other users may have older jobs, so that this many are stored in all. */
  storedJobs?: number;
  config?: BenchServerOptions['config'];
}

export async function startPopulation(
  bench: Bench,
  users: number,
  jobsPerUser: number,
  { storedJobs = 0, config = runningConfig() }: PopulationOptions = {},
): Promise<Population> {
  const bursar = await startBursar(bench, { config });
  const jobs = users * jobsPerUser;
  bench.log(`creating ${users.toLocaleString('en')} users and ${Math.max(jobs, storedJobs).toLocaleString('en')} jobs`);
  const filled = await withDatabase(bursar.data, async (db) => {
    if (storedJobs > jobs) await fillDatabase(db, { jobs: storedJobs - jobs, ...otherUsers });
    return await fillDatabase(db, { jobs, users, firstUserId });
  });
  const tokenOf = new Map(filled.map(({ id, token }) => [id, token]));
  return { bursar, tokens: [...tokenOf.values()], jobs: readJobs(bursar, tokenOf) };
}

function readJobs({ databaseFile }: BenchServer, tokenOf: ReadonlyMap<string, string>): Population['jobs'] {
  const database = new Sqlite(databaseFile, { readonly: true });
  const select = database.prepare('select id, owner, hpc, project_name, job_id from jobs where owner = ? order by id');
  const jobs = [...tokenOf].flatMap(([owner, token]) =>
    (select.all(owner) as { id: number; hpc: string; project_name: string; job_id: string }[]).map(
      ({ id, hpc, project_name, job_id }) => ({ id, path: `/jobs/${hpc}/${project_name}/${job_id}/`, token }),
    ),
  );
  database.close();
  return jobs;
}

/** Random reads of random users: half of them of one job, the others of the user's list and quotas. */
export function mixedReads({ tokens, jobs }: Population): QuestionGroup[] {
  return [
    { weight: 50, questions: jobs.map(({ path, token }) => ({ path, token })) },
    { weight: 30, questions: tokens.map((token) => ({ path: '/jobs/', token })) },
    { weight: 20, questions: tokens.map((token) => ({ path: '/quotas/', token })) },
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

  async function start({ bursar, tokens }: Population, perSecond: number): Promise<Background<number>> {
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

export async function waitUntilAllEnded({ bursar }: Pick<Population, 'bursar'>): Promise<void> {
  const database = new Sqlite(bursar.databaseFile, { readonly: true });
  const findUnfinished = database.prepare('select 1 from jobs where terminal = 0 limit 1');
  try {
    await until('the end of all jobs', () => (findUnfinished.get() === undefined ? true : undefined), 300);
  } finally {
    database.close();
  }
}
