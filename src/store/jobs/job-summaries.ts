import { sql } from 'kysely';
import type { JobRequest, Outcome } from '../../domain/jobs/job.ts';
import type { Db } from '../database/handle.ts';
import { type Param, prepareByShape, prepareQuery } from '../database/prepared.ts';
import {
  type FilterShape,
  type JobFilter,
  maxPrefixMatches,
  type PageValues,
  prepareFilter,
  selectIdsByPrefix,
  toFilterShape,
  toPageValues,
} from './job-filters.ts';

/** The texts of a job that a search compares. */
export interface SearchableJob {
  id: number;
  jobId: string;
  title: string;
  tags: readonly string[];
}

/** Reads the texts of the jobs before a record id, newest first. Each filter has an index, which is read backwards. */
export async function readSearchableJobs(
  db: Db,
  filter: JobFilter,
  before: number,
  limit: number,
): Promise<SearchableJob[]> {
  const shape = JSON.stringify(toFilterShape(filter));
  const rows = await selectSearchableJobs(shape)(db, toPageValues(filter, before, limit));
  return rows.map(({ taggedRequest, ...job }) => ({
    ...job,
    tags: taggedRequest === null ? [] : toTags(JSON.parse(taggedRequest)),
  }));
}

const selectSearchableJobs = prepareByShape((text: string) => {
  const shape = JSON.parse(text) as FilterShape;
  return prepareQuery((db, param: Param<PageValues>, makePlaceholder) => {
    const { jobs, id } = prepareFilter(db, shape, param, makePlaceholder);
    return (
      jobs()
        .select(['jobs.id', 'jobs.jobId', 'jobs.title'])
        // Most jobs have no tags, and requests are long.
        .select(sql<string | null>`case when request like '%"tags":[%' then request end`.as('taggedRequest'))
        .where(id, '<', param('cursor'))
        .orderBy(id, 'desc')
        .limit(param('limit'))
    );
  });
});

/** Whether the ids of so many jobs begin with this text that the `jobIdPrefix` of a filter would miss some. */
export async function isCommonPrefix(db: Db, prefix: string): Promise<boolean> {
  return (await selectIdsByPrefix(db, prefix, maxPrefixMatches + 1).execute()).length > maxPrefixMatches;
}

export interface JobSummary {
  publicJson: string;
  tags: readonly string[];
  nodes: number;
  coresPerNode: number;
  startedAt: number | null;
  outcome: Outcome | null;
  /** The charge minus refunds; null until the job has ended. */
  chargedSeconds: number | null;
}

/** Reads jobs with their charges by one query, newest first. */
export async function readJobSummaries(db: Db, ids: readonly number[]): Promise<JobSummary[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('jobs')
    .leftJoin('holds', 'holds.job', 'jobs.id')
    .leftJoin('resolutions', 'resolutions.holdId', 'holds.id')
    .select(['jobs.publicJson', 'jobs.request', 'jobs.startedAt', 'jobs.outcome'])
    .select('resolutions.timeSeconds as chargedSeconds')
    .select((eb) =>
      eb
        .selectFrom('entries')
        .select(sql<number | null>`sum(posted + overrun)`.as('change'))
        .whereRef('entries.job', '=', 'jobs.id')
        .whereRef('entries.accountId', '=', 'holds.timeCap')
        .where('entries.kind', '=', 'refund')
        .as('refunds'),
    )
    .where('jobs.id', 'in', ids)
    .orderBy('jobs.id', 'desc')
    .execute();
  return rows.map(({ request, chargedSeconds, refunds, ...row }) => {
    const { nodes, coresPerNode, ...rest } = JSON.parse(request) as JobRequest;
    // Refunds are negative.
    const charged = chargedSeconds === null ? null : chargedSeconds + Number(refunds ?? 0);
    return { ...row, tags: toTags(rest), nodes, coresPerNode, chargedSeconds: charged };
  });
}

const toTags = ({ tags }: Pick<JobRequest, 'tags'>) => tags ?? [];
