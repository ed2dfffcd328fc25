import { sql } from 'kysely';
import type { Db } from '../database/handle.ts';
import { type Param, prepareByShape, prepareQuery } from '../database/prepared.ts';
import {
  type FilterShape,
  type JobFilter,
  type JobScope,
  type PageValues,
  prepareFilter,
  toFilterShape,
  toPageValues,
} from './job-filters.ts';

export interface JobPage {
  /** The version of the jobs (see `lockJobsVersion`) at which the page was read. */
  version: string;
  /** Record ids, ascending, and the public JSON of the same jobs. */
  ids: readonly number[];
  publicJson: readonly string[];
  hasMore: boolean;
}

/** A page whose jobs are needed only as text. */
export interface JobPageText {
  version: string;
  /** The public JSON of the jobs, separated by commas. */
  json: string;
  /** The last record id; undefined for an empty page. */
  lastId: number | undefined;
  hasMore: boolean;
}

/**
 * Reads the jobs after a record id, in ascending order, by one query. Each filter has an index in this order, so that a
 * page costs the same however many jobs are stored. With several filters, one index is read, and the others are tested.
 */
export async function readJobPage(db: Db, filter: JobFilter, after: number, limit: number): Promise<JobPage> {
  const { version, json, ids, next } = await selectPage('lines', db, filter, after, limit);
  return {
    version: String(version ?? 0),
    ids: ids === null ? [] : ids.split(',').map(Number),
    publicJson: json === null ? [] : json.split('\n'),
    hasMore: next !== null,
  };
}

/** Like `readJobPage`. The database concatenates the jobs, which takes less time than splitting and joining them. */
export async function readJobPageText(db: Db, filter: JobFilter, after: number, limit: number): Promise<JobPageText> {
  const { version, json, last, next } = await selectPage('text', db, filter, after, limit);
  return { version: String(version ?? 0), json: json ?? '', lastId: last ?? undefined, hasMore: next !== null };
}

async function selectPage(form: PageForm, db: Db, filter: JobFilter, after: number, limit: number) {
  const shape: Shape = { form, ...toFilterShape(filter) };
  const [row] = await prepareSelectPage(JSON.stringify(shape))(db, toPageValues(filter, after, limit));
  if (row === undefined) throw new Error('an aggregate query returned no row');
  return row;
}

type PageForm = 'lines' | 'text';
type Shape = FilterShape & { form: PageForm };

const prepareSelectPage = prepareByShape((text: string) => {
  const shape = JSON.parse(text) as Shape;
  return prepareQuery((db, param: Param<PageValues>, makePlaceholder) => {
    const version = shape.owner
      ? db.selectFrom('users').select('jobs_version as version').where('id', '=', param('owner'))
      : db.selectFrom('users').select((eb) => eb.fn.sum<number>('jobs_version').as('version'));
    const { jobs, id } = prepareFilter(db, shape, param, makePlaceholder);
    const page = jobs()
      .select(['jobs.id', 'jobs.public_json as json'])
      .where(id, '>', param('cursor'))
      .orderBy(id)
      .limit(param('limit'));
    const aggregated = db
      .selectFrom(page.as('page'))
      // Both databases aggregate the rows in the order of the subquery. JSON contains no unescaped line breaks.
      .select([
        sql<string | null>`string_agg(json, ${sql.lit(shape.form === 'lines' ? '\n' : ',')})`.as('json'),
        (shape.form === 'lines' ? sql<string | null>`string_agg(cast(id as text), ',')` : sql<null>`null`).as('ids'),
      ])
      .select((eb) => eb.fn.max<number | null>('id').as('last'));
    return db
      .selectFrom(aggregated.as('aggregated'))
      .select(['json', 'ids', 'last', version.as('version')])
      .select((eb) => [
        // Ordered, so that the index is used.
        jobs().select('jobs.id').where(id, '>', eb.ref('aggregated.last')).orderBy(id).limit(1).as('next'),
      ]);
  });
});

const selectByJobId = prepareQuery((db, param: Param<{ jobId: string }>) =>
  db
    .selectFrom('jobs')
    .select(['owner', 'hpc', 'project_name as project', 'public_json as json'])
    .where('job_id', '=', param('jobId')),
);

/** Returns undefined for a job outside of the scope, as if it did not exist. */
export async function findJobJson(db: Db, scope: JobScope, jobId: string): Promise<string | undefined> {
  const [job] = await selectByJobId(db, { jobId });
  if (job === undefined) return undefined;
  const { owner = job.owner, hpc = job.hpc, project = job.project } = scope;
  return job.owner === owner && job.hpc === hpc && job.project === project ? job.json : undefined;
}
