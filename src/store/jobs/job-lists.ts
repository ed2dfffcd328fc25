import { sql } from 'kysely';
import type { Db } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';
import { type JobFilter, type JobScope, preparePageQuery } from './job-filters.ts';

export interface JobPage {
  /** The public JSON of the jobs, separated by commas. */
  json: string;
  /** The last record id; undefined for an empty page. */
  lastId: number | undefined;
  hasMore: boolean;
}

const selectVersion = prepareQuery((db, param: Param<{ owner: string }>) =>
  db.selectFrom('users').select('jobsVersion as version').where('id', '=', param('owner')),
);
const selectSumOfVersions = prepareQuery((db) =>
  db.selectFrom('users').select((eb) => eb.fn.sum<number>('jobsVersion').as('version')),
);

/** The version of a user's jobs (see `lockJobsVersion`), or of the jobs of all users. */
export async function readJobsVersion(db: Db, owner: string | undefined): Promise<string> {
  const [row] = await (owner === undefined ? selectSumOfVersions(db, {}) : selectVersion(db, { owner }));
  return String(row?.version ?? 0);
}

/**
 * Reads the jobs after a record id, in ascending order, by one query. Each filter has an index in this order, so that a
 * page costs the same however many jobs are stored. With several filters, one index is read, and the others are tested. The
 * database concatenates the jobs, which takes less time than joining them here.
 */
export async function readJobPage(db: Db, filter: JobFilter, after: number, limit: number): Promise<JobPage> {
  const [row] = await selectPage(db, filter, after, limit);
  return { json: row?.json ?? '', lastId: row?.last ?? undefined, hasMore: typeof row?.next === 'number' };
}

const selectPage = preparePageQuery((db, { jobs, id }, param) => {
  const page = jobs()
    .select(['jobs.id', 'jobs.publicJson as json'])
    .where(id, '>', param('cursor'))
    .orderBy(id)
    .limit(param('limit'));
  const aggregated = db
    .selectFrom(page.as('page'))
    // Both databases aggregate the rows in the order of the subquery.
    .select(sql<string | null>`string_agg(json, ',')`.as('json'))
    .select((eb) => eb.fn.max<number | null>('id').as('last'));
  return db
    .selectFrom(aggregated.as('aggregated'))
    .select(['json', 'last'])
    .select((eb) => [
      // Ordered, so that the index is used.
      jobs().select('jobs.id').where(id, '>', eb.ref('aggregated.last')).orderBy(id).limit(1).as('next'),
    ]);
});

const selectByJobId = prepareQuery((db, param: Param<{ jobId: string }>) =>
  db
    .selectFrom('jobs')
    .select(['owner', 'hpc', 'projectName as project', 'publicJson as json'])
    .where('jobId', '=', param('jobId')),
);

/** Returns undefined for a job outside the scope, as if it did not exist. */
export async function findJobJson(db: Db, scope: JobScope, jobId: string): Promise<string | undefined> {
  const [job] = await selectByJobId(db, { jobId });
  if (job === undefined) return undefined;
  const { owner = job.owner, hpc = job.hpc, project = job.project } = scope;
  return job.owner === owner && job.hpc === hpc && job.project === project ? job.json : undefined;
}
