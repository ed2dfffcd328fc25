import { type SelectQueryBuilder, sql } from 'kysely';
import { maxTags } from '../../domain/jobs/tags.ts';
import type { Db } from '../database/handle.ts';
import { type Param, prepareByShape, prepareQuery } from '../database/prepared.ts';
import type { Tables } from '../database/tables.ts';

export interface JobScope {
  /** Administrators leave it out, and get the jobs of all users. */
  owner?: string;
  hpc?: string;
  project?: string;
}

export interface JobFilter extends JobScope {
  /** One of the stage names of the system. */
  stage?: string;
  failed?: boolean;
  terminal?: boolean;
  /** Only jobs accepted at this time or later. */
  since?: number;
  title?: string;
  /** Only jobs with all of these tags. */
  tags?: readonly string[];
}

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

/** The clocks of the hosts differ: a job with a smaller id may have been accepted up to this much later. */
const maxClockSkewMs = 60_000;

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
  const { failed: _failed, terminal: _terminal, ...values } = filter;
  const [row] = await prepareSelectPage(toShape(form, filter))(db, { ...values, after, limit });
  if (row === undefined) throw new Error('an aggregate query returned no row');
  return row;
}

type PageForm = 'lines' | 'text';

/**
 * The filters in use. Boolean filters keep their value, because each value has its own partial index. Of tags the number
 * matters, rounded up: a statement is prepared for each shape, and is kept.
 */
type Shape = {
  [Field in keyof Omit<JobFilter, 'tags'>]: JobFilter[Field] extends boolean | undefined ? boolean : true;
} & {
  form: PageForm;
  tags?: number;
};

const tagCounts = [1, 2, 4, maxTags];

function toShape(form: PageForm, { tags = [], ...filter }: JobFilter): string {
  const fields = Object.entries(filter).map(([field, value]) => [field, typeof value === 'boolean' ? value : true]);
  const tagCount = tagCounts.find((count) => count >= tags.length);
  return JSON.stringify({ form, ...Object.fromEntries(fields), ...(tags.length > 0 ? { tags: tagCount } : {}) });
}

interface PageValues extends Omit<JobFilter, 'failed' | 'terminal'> {
  after: number;
  limit: number;
}

const prepareSelectPage = prepareByShape((text: string) => {
  const shape = JSON.parse(text) as Shape;
  return prepareQuery((db, param: Param<PageValues>, makePlaceholder) => {
    const tagParams = Array.from({ length: shape.tags ?? 0 }, (_, index) =>
      // The last tag is repeated for the remaining placeholders.
      makePlaceholder(({ tags = [] }) => tags[Math.min(index, tags.length - 1)]),
    ) as string[];
    const version = shape.owner
      ? db.selectFrom('users').select('jobs_version as version').where('id', '=', param('owner'))
      : db.selectFrom('users').select((eb) => eb.fn.sum<number>('jobs_version').as('version'));
    const jobs = () => filteredJobs(db, shape, param, tagParams);
    // The column of the index that is read in order.
    const id = sql.ref<number>(readsTagIndex(shape) ? 'job_tags.job' : 'jobs.id');
    const page = jobs()
      .select(['jobs.id', 'jobs.public_json as json'])
      .where(id, '>', param('after'))
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

/** Unfinished and failed jobs are few, and have indexes of their own. */
function readsTagIndex({ tags, terminal, failed }: Shape): boolean {
  return tags !== undefined && terminal !== false && failed !== true;
}

function filteredJobs(db: Db, shape: Shape, param: Param<PageValues>, tags: readonly string[]) {
  let query = readsTagIndex(shape)
    ? taggedJobs(db, shape, param, tags)
    : jobsWithTags(db.selectFrom('jobs'), 'jobs.id', tags);
  if (shape.owner && !readsTagIndex(shape)) query = query.where('jobs.owner', '=', param('owner'));
  if (shape.hpc) query = query.where('jobs.hpc', '=', param('hpc'));
  if (shape.project) query = query.where('jobs.project_name', '=', param('project'));
  if (shape.stage) query = query.where('jobs.stage', '=', param('stage'));
  if (shape.title) query = query.where('jobs.title', '=', param('title'));
  if (shape.failed !== undefined) query = query.where('jobs.failed', '=', sql.lit(shape.failed ? 1 : 0));
  if (shape.terminal !== undefined) query = query.where('jobs.terminal', '=', sql.lit(shape.terminal ? 1 : 0));
  if (shape.since) {
    const since = param('since');
    query = query.where('jobs.accepted_at', '>=', since).where('jobs.id', '>=', selectFirstId(db, since));
  }
  return query;
}

/** Reads the index of a tag, of the owner if there is one, and looks up its jobs. A cross join keeps SQLite from reordering. */
function taggedJobs(db: Db, shape: Shape, param: Param<PageValues>, [tag = '', ...otherTags]: readonly string[]) {
  let query = db
    .selectFrom('job_tags')
    .crossJoin('jobs')
    .whereRef('jobs.id', '=', 'job_tags.job')
    .where('job_tags.tag', '=', tag);
  if (shape.owner) query = query.where('job_tags.owner', '=', param('owner'));
  // Callers use only the columns of the jobs.
  return jobsWithTags(query as unknown as SelectQueryBuilder<Tables, 'jobs', object>, 'job_tags.job', otherTags);
}

function jobsWithTags(query: SelectQueryBuilder<Tables, 'jobs', object>, id: string, tags: readonly string[]) {
  let tagged = query;
  for (const tag of tags) {
    tagged = tagged.where(({ exists, selectFrom }) =>
      exists(
        selectFrom('job_tags as other')
          .select('other.job')
          .where('other.tag', '=', tag)
          .where('other.job', '=', sql.ref<number>(id)),
      ),
    );
  }
  return tagged;
}

/**
 * Selects the smallest id of the jobs accepted since a time, so that older jobs need not be read. Ids ascend with the
 * time of acceptance, except for the clock skew. Null, which matches no job, if none was accepted.
 */
function selectFirstId(db: Db, since: number) {
  const accepted = db.selectFrom('jobs').where('accepted_at', '>=', since);
  const earliest = accepted.select((eb) => eb(eb.fn.min('accepted_at'), '+', maxClockSkewMs).as('at'));
  return accepted.select((eb) => eb.fn.min<number>('id').as('id')).where('accepted_at', '<=', earliest);
}

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
