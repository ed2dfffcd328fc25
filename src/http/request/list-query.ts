import type { FastifyRequest } from 'fastify';
import Type, { type Static, type TObject } from 'typebox';
import { patterns, stage } from '../../contract/fields.ts';
import { maxTags } from '../../domain/jobs/tags.ts';
import type { JobSummaryQuery } from '../../services/jobs/job-summaries.ts';
import type { JobListQuery } from '../../services/jobs/read-jobs.ts';
import { cursorId, formatCursor } from './formats.ts';

const optionalBoolean = (description: string) => Type.Optional(Type.Boolean({ description }));
const optionalLimit = (maximum: number, fallback: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum, description: `Maximum number of jobs. Default: ${fallback}.` }));

/** A time in a query. */
export const optionalTime = (description: string) =>
  Type.Optional(Type.String({ format: 'date-or-time', description }));

/** The times of a range, in epoch milliseconds, for an object that lacks those that the query lacks. */
export function toTimeRange({ from, to }: { from?: string; to?: string }): { from?: number; to?: number } {
  return {
    ...(from !== undefined && { from: Date.parse(from) }),
    ...(to !== undefined && { to: Date.parse(to) }),
  };
}

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
  limit: optionalLimit(1000, 'all'),
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
  limit: optionalLimit(200, '50'),
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
function toFilter({ limit, stage, failed, terminal, since, title, tag }: Static<TObject<typeof listQuery>>) {
  return {
    ...(limit !== undefined && { limit }),
    ...(stage !== undefined && { stage }),
    ...(failed !== undefined && { failed }),
    ...(terminal !== undefined && { terminal }),
    ...(since !== undefined && { since: Date.parse(since) }),
    ...(title !== undefined && { title }),
    ...(tag !== undefined && { tags: [...new Set(tag)] }),
  };
}

export function toListQuery(query: Static<TObject<typeof listQuery>>): JobListQuery {
  const { cursor } = query;
  return { ...toFilter(query), ...(cursor !== undefined && { after: cursorId(cursor) }) };
}

export function toSummaryQuery(query: Static<TObject<typeof summaryQuery>>): JobSummaryQuery {
  const { cursor, search = '', job_id: jobIdPrefix } = query;
  return {
    ...toFilter(query),
    ...(cursor !== undefined && { before: cursorId(cursor) }),
    ...(search.trim() !== '' && { search: search.trim() }),
    // Job ids are in upper case.
    ...(jobIdPrefix !== undefined && { jobIdPrefix: jobIdPrefix.toUpperCase() }),
  };
}

/** The `Link` header for the page that starts after a job, with the filters of this request. */
export function nextLink(request: FastifyRequest, after: number): string {
  const { url } = request;
  const queryStart = url.indexOf('?') + 1;
  const path = queryStart === 0 ? url : url.slice(0, queryStart - 1);
  const parameters = new URLSearchParams(queryStart === 0 ? '' : url.slice(queryStart));
  parameters.set('cursor', formatCursor('after', after));
  return `<${path}?${parameters}>; rel="next"`;
}
