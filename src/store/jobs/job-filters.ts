import { type Compilable, type RawBuilder, type SelectQueryBuilder, sql } from 'kysely';
import { maxTags } from '../../domain/jobs/payload-fields.ts';
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
  /** Only jobs whose id begins with this text. At most `maxPrefixMatches` jobs of all users may. */
  jobIdPrefix?: string;
}

/** Limits what one statement reads. */
export const maxPrefixMatches = 1000;

/** The clocks of the hosts differ: a job with a smaller id may have been accepted up to this much later. */
const maxClockSkewMs = 60_000;

/**
 * The filters in use. Boolean filters keep their value, because each value has its own partial index. Of tags the number
 * matters, rounded up: a statement is prepared for each shape, and is kept.
 */
type FilterShape = {
  [Field in keyof Omit<JobFilter, 'tags'>]: JobFilter[Field] extends boolean | undefined ? boolean : true;
} & { tags?: number };

const tagCounts = [1, 2, 4, maxTags];

function toFilterShape({ tags = [], ...filter }: JobFilter): FilterShape {
  const fields = Object.entries(filter).map(([field, value]) => [field, typeof value === 'boolean' ? value : true]);
  const tagCount = tagCounts.find((count) => count >= tags.length);
  return { ...Object.fromEntries(fields), ...(tags.length > 0 ? { tags: tagCount } : {}) };
}

/** The values of the filters, the id next to which a page starts, and its size. */
type PageValues = JobFilter & { cursor: number; limit: number } & Record<`tag${number}`, string>;

/** Jobs that match a filter. `id` is the column of the index that is read in order. */
interface FilteredJobs {
  jobs(): SelectQueryBuilder<Tables, 'jobs', object>;
  id: RawBuilder<number>;
}

/** Prepares a query of a page of jobs, once for each set of filters. */
export function preparePageQuery<Row>(
  build: (db: Db, filtered: FilteredJobs, param: Param<{ cursor: number; limit: number }>) => Compilable<Row>,
): (db: Db, filter: JobFilter, cursor: number, limit: number) => Promise<readonly Row[]> {
  const prepare = prepareByShape((text: string) =>
    prepareQuery((db, param: Param<PageValues>) => {
      const shape = JSON.parse(text) as FilterShape;
      const id = sql.ref<number>(readsTagIndex(shape) ? 'jobTags.job' : 'jobs.id');
      return build(db, { jobs: () => filterJobs(db, shape, param), id }, param);
    }),
  );
  return (db, filter, cursor, limit) => {
    const shape = toFilterShape(filter);
    const tags = tagNames(shape).map((name, index) => [name, filter.tags?.[index] ?? filter.tags?.at(-1)]);
    return prepare(JSON.stringify(shape))(db, { ...filter, ...Object.fromEntries(tags), cursor, limit });
  };
}

/** The names of the parameters for tags. The last tag of a filter is repeated for the remaining ones. */
function tagNames({ tags = 0 }: FilterShape): `tag${number}`[] {
  return Array.from({ length: tags }, (_, index) => `tag${index}` as const);
}

/** Unfinished and failed jobs are few, and have indexes of their own. */
function readsTagIndex({ tags, terminal, failed }: FilterShape): boolean {
  return tags !== undefined && terminal !== false && failed !== true;
}

function filterJobs(db: Db, shape: FilterShape, param: Param<PageValues>) {
  const tags = tagNames(shape).map(param);
  let query = readsTagIndex(shape)
    ? taggedJobs(db, shape, param, tags)
    : jobsWithTags(db.selectFrom('jobs'), 'jobs.id', tags);
  if (shape.owner && !readsTagIndex(shape)) query = query.where('jobs.owner', '=', param('owner'));
  if (shape.hpc) query = query.where('jobs.hpc', '=', param('hpc'));
  if (shape.project) query = query.where('jobs.projectName', '=', param('project'));
  if (shape.stage) query = query.where('jobs.stage', '=', param('stage'));
  if (shape.jobIdPrefix) query = query.where('jobs.id', 'in', selectIdsOnce(db, param('jobIdPrefix')));
  if (shape.title) query = query.where('jobs.title', '=', param('title'));
  if (shape.failed !== undefined) query = query.where('jobs.failed', '=', sql.lit(shape.failed ? 1 : 0));
  if (shape.terminal !== undefined) query = query.where('jobs.terminal', '=', sql.lit(shape.terminal ? 1 : 0));
  if (shape.since) {
    const since = param('since');
    query = query.where('jobs.acceptedAt', '>=', since).where('jobs.id', '>=', selectFirstId(db, since));
  }
  return query;
}

/** Reads the index of a tag, of the owner if there is one, and looks up its jobs. A cross join keeps SQLite from reordering. */
function taggedJobs(db: Db, shape: FilterShape, param: Param<PageValues>, [tag = '', ...otherTags]: readonly string[]) {
  let query = db
    .selectFrom('jobTags')
    .crossJoin('jobs')
    .whereRef('jobs.id', '=', 'jobTags.job')
    .where('jobTags.tag', '=', tag);
  if (shape.owner) query = query.where('jobTags.owner', '=', param('owner'));
  // Callers use only the columns of the jobs.
  return jobsWithTags(query as unknown as SelectQueryBuilder<Tables, 'jobs', object>, 'jobTags.job', otherTags);
}

function jobsWithTags(query: SelectQueryBuilder<Tables, 'jobs', object>, id: string, tags: readonly string[]) {
  const hasTag = (tag: string) =>
    sql<boolean>`exists (select job from job_tags as other where other.tag = ${tag} and other.job = ${sql.ref(id)})`;
  return tags.reduce((tagged, tag) => tagged.where(hasTag(tag)), query);
}

/** PostgreSQL would run the subquery again for each row of another index. */
function selectIdsOnce(db: Db, prefix: string) {
  const ids = selectIdsByPrefix(db, prefix, maxPrefixMatches);
  return sql<number>`(with matching as materialized ${ids} select id from matching)`;
}

/** Selects jobs of all users by the beginning of their id, from the index. */
export function selectIdsByPrefix(db: Db, prefix: string, limit: number) {
  const jobId = sql<string>`job_id collate ${sql.raw(db.backend.dialect.binaryCollation)}`;
  return (
    db
      .selectFrom('jobs')
      .select('id')
      .where(jobId, '>=', prefix)
      // "~" is greater than every character of a job id.
      .where(jobId, '<', sql<string>`cast(${prefix} as text) || '~'`)
      .limit(limit)
  );
}

/**
 * Selects the smallest id of the jobs accepted since a time, so that older jobs need not be read. Ids ascend with the
 * time of acceptance, except for the clock skew. Null, which matches no job, if none was accepted.
 */
function selectFirstId(db: Db, since: number) {
  const accepted = db.selectFrom('jobs').where('acceptedAt', '>=', since);
  const earliest = accepted.select((eb) => eb(eb.fn.min('acceptedAt'), '+', maxClockSkewMs).as('at'));
  return accepted.select((eb) => eb.fn.min<number>('id').as('id')).where('acceptedAt', '<=', earliest);
}
