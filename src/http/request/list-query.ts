import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { BursarError, type FieldError } from '../../domain/errors.ts';
import { parseInteger } from '../../domain/jobs/payload-fields.ts';
import type { JobListQuery } from '../../services/jobs/read-jobs.ts';
import { parseTime, timeExample } from './parse-time.ts';

const mostPerPage = 1000;

/** The query of a list of jobs, for the description of the interface. `readListQuery` checks it. */
export const listQuerySchema = Type.Object({
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: mostPerPage, description: 'At most so many; all if left out.' }),
  ),
  cursor: Type.Optional(Type.String({ description: 'Where the page before ended: taken from its `Link`.' })),
  stage: Type.Optional(Type.String({ description: 'Only jobs in this stage, in the words of the system.' })),
  failed: Type.Optional(Type.Boolean({ description: 'Only jobs that failed, or only those that did not.' })),
  terminal: Type.Optional(Type.Boolean({ description: 'Only jobs in a final stage, or only the others.' })),
  since: Type.Optional(Type.String({ description: 'Only jobs submitted at this time (ISO 8601) or later.' })),
  title: Type.Optional(Type.String({ description: 'Only jobs of exactly this title.' })),
});

/** What a list was asked for. Throws one error that names every parameter at fault. */
export function readListQuery(request: FastifyRequest): JobListQuery {
  const given = request.query as Record<string, string | string[]>;
  const errors: FieldError[] = [];
  const text = (field: keyof typeof listQuerySchema.properties): string | undefined => {
    const value = given[field];
    if (typeof value !== 'object') return value;
    errors.push({ field, message: 'must be given once' });
    return undefined;
  };
  const read = <T>(field: string, value: string | undefined, parse: (value: string) => T | undefined, rule: string) => {
    const parsed = value === undefined ? undefined : parse(value);
    if (value !== undefined && parsed === undefined) errors.push({ field, message: rule });
    return parsed;
  };
  const limit = text('limit');
  const query = {
    limit: limit === undefined ? undefined : parseInteger({ limit }, 'limit', { min: 1, max: mostPerPage }, errors),
    after: read('cursor', text('cursor'), readCursor, 'must be taken from the Link of the page before'),
    failed: read('failed', text('failed'), readBoolean, 'must be true or false'),
    terminal: read('terminal', text('terminal'), readBoolean, 'must be true or false'),
    since: read('since', text('since'), parseTime, `must be a time, such as ${timeExample}`),
    stage: text('stage'),
    title: text('title'),
  };
  if (errors.length > 0) {
    const list = errors.map(({ field, message }) => `"${field}" ${message}`).join('; ');
    throw new BursarError('bad_request', `The list cannot be had like this: ${list}.`, { fields: errors });
  }
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));
}

/** The `Link` to the page that comes after a job, as this one was asked for. */
export function nextLink(request: FastifyRequest, after: number): string {
  const [path = '', query] = request.url.split('?', 2);
  const parameters = new URLSearchParams(query);
  parameters.set('cursor', cursorOf(after));
  return `<${path}?${parameters}>; rel="next"`;
}

/** Opaque to callers, so that what it stands for can change. */
function cursorOf(after: number): string {
  return Buffer.from(`after:${after}`).toString('base64url');
}

function readCursor(text: string): number | undefined {
  const [, digits] = /^after:(\d{1,15})$/.exec(Buffer.from(text, 'base64url').toString()) ?? [];
  const after = Number(digits);
  return digits !== undefined && cursorOf(after) === text ? after : undefined;
}

function readBoolean(text: string): boolean | undefined {
  if (text === 'true') return true;
  return text === 'false' ? false : undefined;
}
