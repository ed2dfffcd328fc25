import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { stage } from '../../contract/fields.ts';
import { BursarError, type FieldError } from '../../domain/errors.ts';
import { parseInteger } from '../../domain/jobs/payload-fields.ts';
import { isTag, maxTags, tagRule } from '../../domain/jobs/tags.ts';
import type { JobSummaryQuery } from '../../services/jobs/job-summaries.ts';
import type { JobListQuery } from '../../services/jobs/read-jobs.ts';
import { parseQueryTime, timeExample } from './parse-time.ts';

const maxPageSize = 1000;
const maxSummaries = 200;
const maxSearchLength = 200;
const maxJobIdLength = 100;

const optionalString = (description: string) => Type.Optional(Type.String({ description }));
const optionalBoolean = (description: string) => Type.Optional(Type.Boolean({ description }));

const filterQuery = {
  stage: Type.Optional(stage),
  failed: optionalBoolean('`true`: only failed jobs. `false`: only jobs that have not failed.'),
  terminal: optionalBoolean('`true`: only jobs in a final stage. `false`: only unfinished jobs.'),
  since: optionalString('Only jobs submitted at this time (ISO 8601) or later.'),
  title: optionalString('Only jobs with exactly this title.'),
  tag: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: maxTags,
      description: 'Only jobs with this tag. Repeat it for jobs that have all of several tags.',
    }),
  ),
};

const limitQuery = (maximum: number, fallback: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum, description: `Maximum number of jobs. Default: ${fallback}.` }));

/** OpenAPI schemas of the query of a job list. `parseListQuery` does the validation. */
export const listQuery = {
  limit: limitQuery(maxPageSize, 'all'),
  cursor: optionalString('Start of the page, from the `Link` header of the previous page.'),
  ...filterQuery,
};

/** The same of a list of summaries. `parseSummaryQuery` does the validation. */
export const summaryQuery = {
  limit: limitQuery(maxSummaries, '50'),
  cursor: optionalString('Start of the page, from `next` of the previous page.'),
  search: Type.Optional(
    Type.String({
      maxLength: maxSearchLength,
      description: 'Only jobs whose title, identifier or tags contain this text, in upper or lower case.',
    }),
  ),
  job_id: Type.Optional(
    Type.String({
      maxLength: maxJobIdLength,
      description: 'Only jobs whose identifier begins with this text, in upper or lower case.',
    }),
  ),
  ...filterQuery,
};

/** Parses the query of a job list. Throws one error that names every invalid parameter. */
export function parseListQuery(request: FastifyRequest): JobListQuery {
  return parseQuery(request, ({ parseField, parseLimit }) => ({
    limit: parseLimit(maxPageSize),
    after: parseField('cursor', parseCursor('after'), 'must come from the Link header of the previous page'),
  }));
}

/** Parses the query of a list of summaries in the same way. */
export function parseSummaryQuery(request: FastifyRequest): JobSummaryQuery {
  return parseQuery(request, ({ parseField, parseLimit }) => ({
    limit: parseLimit(maxSummaries),
    before: parseField('cursor', parseCursor('before'), 'must be `next` of the previous page'),
    search: parseField('search', parseSearch, `must have at most ${maxSearchLength} characters`) || undefined,
    jobIdPrefix: parseField(
      'job_id',
      parseJobIdPrefix,
      `must be the beginning of a job id: 1 to ${maxJobIdLength} letters, digits, "-" and "_"`,
    ),
  }));
}

type Field = keyof typeof listQuery | keyof typeof summaryQuery;

interface Parsers {
  /** Undefined, with an error, for a value that `parse` does not accept. */
  parseField<T>(field: Field, parse: (text: string) => T | undefined, rule: string): T | undefined;
  parseLimit(max: number): number | undefined;
}

/** Parses the filters, and the other parameters by `parseOthers`. */
function parseQuery(request: FastifyRequest, parseOthers: (parsers: Parsers) => object): object {
  const parameters = request.query as Record<string, string | string[]>;
  const errors: FieldError[] = [];
  const single = (field: Field): string | undefined => {
    const value = parameters[field];
    if (typeof value !== 'object') return value;
    errors.push({ field, message: 'must be given once' });
    return undefined;
  };
  const parseField: Parsers['parseField'] = (field, parse, rule) => {
    const text = single(field);
    const value = text === undefined ? undefined : parse(text);
    if (text !== undefined && value === undefined) errors.push({ field, message: rule });
    return value;
  };
  const parseLimit = (max: number) => {
    const limit = single('limit');
    return limit === undefined ? undefined : parseInteger({ limit }, 'limit', { min: 1, max }, errors);
  };
  const query = {
    ...parseOthers({ parseField, parseLimit }),
    failed: parseField('failed', parseBoolean, 'must be true or false'),
    terminal: parseField('terminal', parseBoolean, 'must be true or false'),
    since: parseField('since', parseQueryTime, `must be a time, such as ${timeExample}`),
    stage: single('stage'),
    title: single('title'),
    tags: parseTagFilter(parameters.tag, errors),
  };
  if (errors.length > 0) {
    const list = errors.map(({ field, message }) => `"${field}" ${message}`).join('; ');
    throw new BursarError('bad_request', `The query is not valid: ${list}.`, { fields: errors });
  }
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));
}

function parseTagFilter(value: string | string[] | undefined, errors: FieldError[]): string[] | undefined {
  if (value === undefined) return undefined;
  const tags = [...new Set([value].flat())];
  if (tags.length > maxTags) errors.push({ field: 'tag', message: `must be given at most ${maxTags} times` });
  if (!tags.every(isTag)) errors.push({ field: 'tag', message: tagRule });
  return tags;
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

/** The id of the last job of a page, and whether the next page has the jobs after or before it. */
type CursorKind = 'after' | 'before';

/** Opaque to callers, so that its content can change. */
export function formatCursor(kind: CursorKind, id: number): string {
  return Buffer.from(`${kind}:${id}`).toString('base64url');
}

const parseCursor = (kind: CursorKind) => (text: string) => {
  const [, digits] = /^[a-z]+:(\d{1,15})$/.exec(Buffer.from(text, 'base64url').toString()) ?? [];
  const id = Number(digits);
  return digits !== undefined && formatCursor(kind, id) === text ? id : undefined;
};

const parseSearch = (text: string) => (text.length <= maxSearchLength ? text.trim() : undefined);

/** Job ids are in upper case. */
const parseJobIdPrefix = (text: string) =>
  /^[\w-]+$/.test(text) && text.length <= maxJobIdLength ? text.toUpperCase() : undefined;

function parseBoolean(text: string): boolean | undefined {
  if (text === 'true') return true;
  return text === 'false' ? false : undefined;
}
