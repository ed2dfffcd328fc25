import type { FastifyRequest } from 'fastify';
import Type, { type Static, type TObject } from 'typebox';
import { patterns, stage } from '../../contract/fields.ts';
import { maxTags } from '../../domain/jobs/payload-fields.ts';
import type { JobSummaryQuery } from '../../services/jobs/job-summaries.ts';
import type { JobListQuery } from '../../services/jobs/read-jobs.ts';
import { cursorId, formatCursor } from './formats.ts';

const optionalBoolean = (description: string) => Type.Optional(Type.Boolean({ description }));
const optionalLimit = (nouns: string, maximum: number, fallback: string) =>
  Type.Optional(
    Type.Integer({ minimum: 1, maximum, description: `Maximum number of ${nouns}. Default: ${fallback}.` }),
  );

/** A time in a query. */
export const optionalTime = (description: string) =>
  Type.Optional(Type.String({ format: 'date-or-time', description }));

/** A page of a list that is ordered by descending id. */
export const pageQuery = (nouns: string, maximum: number, defaultLimit: string) => ({
  limit: optionalLimit(nouns, maximum, defaultLimit),
  before: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The smallest id of the page before: only the older ones.',
    }),
  ),
});

/** Without the fields that are undefined. */
const withoutUndefined = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof T]?: Exclude<T[Name], undefined>;
  };

const toMs = (time: string | undefined) => (time === undefined ? undefined : Date.parse(time));

/** The times of a range, in epoch milliseconds. */
export const toTimeRange = ({ from, to }: { from?: string; to?: string }) =>
  withoutUndefined({ from: toMs(from), to: toMs(to) });

const filterQuery = {
  stage: Type.Optional(stage),
  failed: optionalBoolean('`true`: only failed jobs. `false`: only jobs that have not failed.'),
  terminal: optionalBoolean('`true`: only jobs in a final stage. `false`: only unfinished jobs.'),
  since: optionalTime('Only jobs submitted at this time (ISO 8601) or later.'),
  title: Type.Optional(Type.String({ description: 'Only jobs with exactly this title.' })),
  tag: Type.Optional(
    Type.Array(Type.String({ format: 'tag' }), {
      maxItems: maxTags,
      description: 'Only jobs with this tag. Repeat it for jobs that have all of several tags.',
    }),
  ),
};

/** The query of a list of jobs. */
export const listQuery = {
  limit: optionalLimit('jobs', 1000, 'all'),
  cursor: Type.Optional(
    Type.String({
      format: 'cursor-after',
      description: 'Start of the page, from the `Link` header of the previous page.',
    }),
  ),
  ...filterQuery,
};

/** The query of a list of summaries. */
export const summaryQuery = {
  limit: optionalLimit('jobs', 200, '50'),
  cursor: Type.Optional(
    Type.String({ format: 'cursor-before', description: 'Start of the page, from `next` of the previous page.' }),
  ),
  search: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'Only jobs whose title, identifier or tags contain this text, in upper or lower case.',
    }),
  ),
  job_id: Type.Optional(
    Type.String({
      pattern: patterns.jobIdPrefix.pattern,
      description: 'Only jobs whose identifier begins with this text, in upper or lower case.',
    }),
  ),
  ...filterQuery,
};

/** The parameters that a query has, as the services name them. */
export function toListQuery(query: Static<TObject<typeof listQuery>>): JobListQuery {
  const { limit, stage, failed, terminal, title, since, tag, cursor } = query;
  const tags = tag && [...new Set(tag)];
  const after = cursor === undefined ? undefined : cursorId(cursor);
  return withoutUndefined({ limit, stage, failed, terminal, title, since: toMs(since), tags, after });
}

export function toSummaryQuery(query: Static<TObject<typeof summaryQuery>>): JobSummaryQuery {
  const { cursor, search, job_id: jobIdPrefix, ...filter } = query;
  return withoutUndefined({
    ...toListQuery(filter),
    before: cursor === undefined ? undefined : cursorId(cursor),
    search: search?.trim() || undefined,
    // Job ids are in upper case.
    jobIdPrefix: jobIdPrefix?.toUpperCase(),
  });
}

/** The `Link` header for the page that starts after a job, with the filters of this request. */
export function nextLink(request: FastifyRequest, after: number): string {
  const [path, query] = request.url.split(/\?(.*)/s, 2);
  const parameters = new URLSearchParams(query);
  parameters.set('cursor', formatCursor('after', after));
  return `<${path}?${parameters}>; rel="next"`;
}
