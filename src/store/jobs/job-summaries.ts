import { sql } from 'kysely';
import type { JobRequest } from '../../domain/jobs/job.ts';
import type { Db } from '../database/handle.ts';
import { type JobFilter, maxPrefixMatches, preparePageQuery, selectIdsByPrefix } from './job-filters.ts';

/** Reads the texts of the jobs before a record id, newest first. Each filter has an index, which is read backwards. */
export async function readSearchableJobs(db: Db, filter: JobFilter, before: number, limit: number) {
  const rows = await selectSearchableJobs(db, filter, before, limit);
  return rows.map(({ taggedRequest, ...job }) => ({
    ...job,
    tags: taggedRequest === null ? [] : toTags(JSON.parse(taggedRequest)),
  }));
}

const selectSearchableJobs = preparePageQuery((_db, { jobs, id }, param) =>
  jobs()
    .select(['jobs.id', 'jobs.jobId', 'jobs.title'])
    // Most jobs have no tags, and requests are long.
    .select(sql<string | null>`case when request like '%"tags":[%' then request end`.as('taggedRequest'))
    .where(id, '<', param('cursor'))
    .orderBy(id, 'desc')
    .limit(param('limit')),
);

/** Whether the ids of so many jobs begin with this text that the `jobIdPrefix` of a filter would miss some. */
export async function isCommonPrefix(db: Db, prefix: string): Promise<boolean> {
  return (await selectIdsByPrefix(db, prefix, maxPrefixMatches + 1).execute()).length > maxPrefixMatches;
}

export type JobSummary = Awaited<ReturnType<typeof readJobSummaries>>[number];

/** Reads jobs with their charges by one query, newest first. */
export async function readJobSummaries(db: Db, ids: readonly number[]) {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('jobs')
    .leftJoin('holds', 'holds.job', 'jobs.id')
    .leftJoin('resolutions', 'resolutions.holdId', 'holds.id')
    .select(['jobs.publicJson', 'jobs.request', 'jobs.startedAt', 'jobs.outcome'])
    .select('resolutions.timeSeconds as chargedSeconds')
    .select(
      sql<number | null>`(select sum(posted + overrun) from entries
        where job = jobs.id and account_id = holds.time_cap and kind = 'refund')`.as('refunds'),
    )
    .where('jobs.id', 'in', ids)
    .orderBy('jobs.id', 'desc')
    .execute();
  return rows.map(({ request, chargedSeconds, refunds, ...row }) => {
    const { nodes, coresPerNode, ...rest } = JSON.parse(request) as JobRequest;
    // Refunds are negative. A job that has not ended has no charge.
    const charged = chargedSeconds === null ? null : chargedSeconds + (refunds ?? 0);
    return { ...row, tags: toTags(rest), nodes, coresPerNode, chargedSeconds: charged };
  });
}

const toTags = ({ tags }: Pick<JobRequest, 'tags'>) => tags ?? [];
