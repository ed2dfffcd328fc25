import { sql } from 'kysely';
import type { Db } from '../database/handle.ts';
import { prepared, preparedByShape, type Value } from '../database/prepared.ts';

/** Whose jobs, and where. */
export interface JobScope {
  /** Left out: everybody's, for administrators. */
  owner?: string;
  hpc?: string;
  project?: string;
}

export interface JobFilter extends JobScope {
  /** In the words of the system. */
  stage?: string;
  failed?: boolean;
  terminal?: boolean;
  /** Accepted at this moment or later. */
  since?: number;
  title?: string;
}

/** Some jobs of a list, in their order. */
export interface JobPage {
  /** The version of the jobs whose list it is, as `versions.ts` tells; all else is of that version. */
  version: string;
  /** Their record numbers, and their public JSON. */
  ids: readonly number[];
  publicJson: readonly string[];
  /** Whether there are more of them. */
  hasMore: boolean;
}

/** A job that got its number before another one was accepted by so much later at the most, by the clocks of all hosts. */
const clockSlackMs = 60_000;

/**
 * The next jobs of a list, by ascending record number, after the one named, put together by the database in one look.
 * Each kind of list has an index that is in this order, so that a page costs the same however many jobs are stored.
 * A page of the version that is known already comes without jobs.
 */
export async function readJobPage(
  db: Db,
  filter: JobFilter,
  after: number,
  most: number,
  knownVersion = '-1',
): Promise<JobPage> {
  const { failed: _failed, terminal: _terminal, ...values } = filter;
  const [row] = await pagesOf(shapeOf(filter))(db, { ...values, after, most, known: Number(knownVersion) });
  if (row === undefined) throw new Error('an aggregate gives one row');
  return {
    version: String(row.version ?? 0),
    ids: row.ids === null ? [] : row.ids.split(',').map(Number),
    publicJson: row.json === null ? [] : row.json.split('\n'),
    hasMore: row.next !== null,
  };
}

/** What a list is filtered by; and of what is one of two, which of them: there is an index for each. */
type Shape = { [Field in keyof JobFilter]: JobFilter[Field] extends boolean | undefined ? boolean : true };

function shapeOf(filter: JobFilter): string {
  return JSON.stringify(filter, (_field, value) =>
    typeof value === 'object' || typeof value === 'boolean' ? value : true,
  );
}

interface PageValues extends Omit<JobFilter, 'failed' | 'terminal'> {
  after: number;
  most: number;
  known: number;
}

const pagesOf = preparedByShape((text: string) => {
  const shape = JSON.parse(text) as Shape;
  return prepared((db, value: Value<PageValues>) => {
    const version = shape.owner
      ? db.selectFrom('users').select('jobs_version as version').where('id', '=', value('owner'))
      : db.selectFrom('users').select((eb) => eb.fn.sum<number>('jobs_version').as('version'));
    const jobs = () => filteredJobs(db, shape, value);
    const page = jobs()
      .select(['id', 'public_json as json'])
      .where('id', '>', value('after'))
      .orderBy('id')
      .limit(value('most'));
    const read = db
      .selectFrom(page.as('page'))
      // Both databases take the rows as they come, which is in the order of the page. JSON has no bare line breaks.
      .select([
        sql<string | null>`string_agg(json, ${sql.lit('\n')})`.as('json'),
        sql<string | null>`string_agg(cast(id as text), ',')`.as('ids'),
      ])
      .select((eb) => eb.fn.max<number | null>('id').as('last'))
      .where(version, '<>', value('known'));
    return db
      .selectFrom(read.as('read'))
      .select(['json', 'ids', version.as('version')])
      .select((eb) => [
        // In their order, so that the next one is found by the index.
        jobs().select('id').where('id', '>', eb.ref('read.last')).orderBy('id').limit(1).as('next'),
      ]);
  });
});

function filteredJobs(db: Db, shape: Shape, value: Value<PageValues>) {
  let query = db.selectFrom('jobs');
  if (shape.owner) query = query.where('owner', '=', value('owner'));
  if (shape.hpc) query = query.where('hpc', '=', value('hpc'));
  if (shape.project) query = query.where('project_name', '=', value('project'));
  if (shape.stage) query = query.where('stage', '=', value('stage'));
  if (shape.title) query = query.where('title', '=', value('title'));
  if (shape.failed !== undefined) query = query.where('failed', '=', sql.lit(shape.failed ? 1 : 0));
  if (shape.terminal !== undefined) query = query.where('terminal', '=', sql.lit(shape.terminal ? 1 : 0));
  if (shape.since) {
    const since = value('since');
    query = query.where('accepted_at', '>=', since).where('id', '>=', firstSince(db, since));
  }
  return query;
}

/**
 * The number to begin with; null, which nothing compares with, when there is no such job. Numbers are given in the order
 * of time, but for the slack, so older jobs need not be looked at.
 */
function firstSince(db: Db, since: number) {
  const accepted = db.selectFrom('jobs').where('accepted_at', '>=', since);
  const earliest = accepted.select((eb) => eb(eb.fn.min('accepted_at'), '+', clockSlackMs).as('at'));
  return accepted.select((eb) => eb.fn.min<number>('id').as('id')).where('accepted_at', '<=', earliest);
}

const byJobId = prepared((db, value: Value<{ jobId: string }>) =>
  db
    .selectFrom('jobs')
    .select(['owner', 'hpc', 'project_name as project', 'public_json as json'])
    .where('job_id', '=', value('jobId')),
);

/** Undefined for a job that is not in the scope, as if there were none. */
export async function findJobJson(db: Db, scope: JobScope, jobId: string): Promise<string | undefined> {
  const [job] = await byJobId(db, { jobId });
  if (job === undefined) return undefined;
  const { owner = job.owner, hpc = job.hpc, project = job.project } = scope;
  return job.owner === owner && job.hpc === hpc && job.project === project ? job.json : undefined;
}
