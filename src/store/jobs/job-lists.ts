import { sql } from 'kysely';
import type { Db } from '../database/handle.ts';
import { prepared, preparedByShape, type Value } from '../database/prepared.ts';

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
}

export interface JobPage {
  /** The version of the jobs (see `lockJobsVersion`) at which the page was read. */
  version: string;
  /** Record ids, ascending, and the public JSON of the same jobs. */
  ids: readonly number[];
  publicJson: readonly string[];
  hasMore: boolean;
}

/** How much later a job with a smaller id can have been accepted, because the clocks of the hosts differ. */
const clockSlackMs = 60_000;

/**
 * Reads the jobs after a record id, in ascending order, by one query. Each filter has an index in this order, so that a
 * page costs the same however many jobs are stored. The page has no jobs if their version is the known one.
 */
export async function readJobPage(
  db: Db,
  filter: JobFilter,
  after: number,
  limit: number,
  knownVersion = '-1',
): Promise<JobPage> {
  const { failed: _failed, terminal: _terminal, ...values } = filter;
  const [row] = await selectPage(toShape(filter))(db, { ...values, after, limit, known: Number(knownVersion) });
  if (row === undefined) throw new Error('an aggregate query returned no row');
  return {
    version: String(row.version ?? 0),
    ids: row.ids === null ? [] : row.ids.split(',').map(Number),
    publicJson: row.json === null ? [] : row.json.split('\n'),
    hasMore: row.next !== null,
  };
}

/** The filters in use. Boolean filters keep their value, because each value has its own partial index. */
type Shape = { [Field in keyof JobFilter]: JobFilter[Field] extends boolean | undefined ? boolean : true };

function toShape(filter: JobFilter): string {
  return JSON.stringify(filter, (_field, value) =>
    typeof value === 'object' || typeof value === 'boolean' ? value : true,
  );
}

interface PageValues extends Omit<JobFilter, 'failed' | 'terminal'> {
  after: number;
  limit: number;
  known: number;
}

const selectPage = preparedByShape((text: string) => {
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
      .limit(value('limit'));
    const aggregated = db
      .selectFrom(page.as('page'))
      // Both databases aggregate the rows in the order of the subquery. JSON contains no unescaped line breaks.
      .select([
        sql<string | null>`string_agg(json, ${sql.lit('\n')})`.as('json'),
        sql<string | null>`string_agg(cast(id as text), ',')`.as('ids'),
      ])
      .select((eb) => eb.fn.max<number | null>('id').as('last'))
      .where(version, '<>', value('known'));
    return db
      .selectFrom(aggregated.as('aggregated'))
      .select(['json', 'ids', version.as('version')])
      .select((eb) => [
        // Ordered, so that the index is used.
        jobs().select('id').where('id', '>', eb.ref('aggregated.last')).orderBy('id').limit(1).as('next'),
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
    query = query.where('accepted_at', '>=', since).where('id', '>=', selectFirstId(db, since));
  }
  return query;
}

/**
 * Selects the smallest id to read; null, so that no job matches, if none was accepted since. Ids ascend with the time of
 * acceptance, except for the clock slack, so that the rows of older jobs need not be read.
 */
function selectFirstId(db: Db, since: number) {
  const accepted = db.selectFrom('jobs').where('accepted_at', '>=', since);
  const earliest = accepted.select((eb) => eb(eb.fn.min('accepted_at'), '+', clockSlackMs).as('at'));
  return accepted.select((eb) => eb.fn.min<number>('id').as('id')).where('accepted_at', '<=', earliest);
}

const selectByJobId = prepared((db, value: Value<{ jobId: string }>) =>
  db
    .selectFrom('jobs')
    .select(['owner', 'hpc', 'project_name as project', 'public_json as json'])
    .where('job_id', '=', value('jobId')),
);

/** Returns undefined for a job outside of the scope, as if it did not exist. */
export async function findJobJson(db: Db, scope: JobScope, jobId: string): Promise<string | undefined> {
  const [job] = await selectByJobId(db, { jobId });
  if (job === undefined) return undefined;
  const { owner = job.owner, hpc = job.hpc, project = job.project } = scope;
  return job.owner === owner && job.hpc === hpc && job.project === project ? job.json : undefined;
}
