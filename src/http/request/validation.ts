import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { closest } from 'fastest-levenshtein';
import type { FastifyRequest } from 'fastify';
import Type, { type TProperties, type TSchema } from 'typebox';
import { patterns } from '../../contract/fields.ts';
import { BursarError, type FieldError } from '../../domain/errors.ts';
import type { IdempotentRequest } from '../../services/idempotency.ts';
import { callerOf } from './access.ts';
import { formats } from './formats.ts';
import { withoutNul } from './path-params.ts';

/** A list of small faults could otherwise make a response that is a hundred times as large as its request. */
const maxReportedErrors = 20;
const maxNameLength = 64;

/** The requests of a route. */
export interface RequestDeclaration {
  /** Method and path. */
  route: string;
  /** An object if the route needs a token. */
  access: object | string;
  query?: TProperties;
  /** The query is not checked. */
  anyQuery?: true;
  headers?: TProperties;
  /** JSON. */
  body?: TSchema;
  /** The same, of an HTML form. */
  form?: TSchema;
  /** Whether the request can be repeated with an Idempotency-Key. By default every POST of a caller can. */
  key?: 'required' | 'optional';
}

export type RequestCheck = (request: FastifyRequest) => void;

/** Creates the checks of requests by the declarations of their routes. `references` are the schemas that these refer to. */
export function createRequestChecks(references: readonly TSchema[]): (route: RequestDeclaration) => RequestCheck {
  let ajv: Ajv | undefined;

  /** Schemas are compiled on first use: most are never used, and compiling all of them takes a tenth of the start. */
  function lazily(schema: TSchema): (value: unknown) => readonly ErrorObject[] {
    let validate: ValidateFunction | undefined;
    return (value) => {
      ajv ??= createAjv(references);
      validate ??= ajv.compile(schema);
      return validate(value) ? [] : (validate.errors ?? []);
    };
  }

  return (route) => {
    const { query = {}, headers, key } = route;
    const body = route.body ?? route.form;
    const validateQuery = Object.keys(query).length > 0 ? lazily(Type.Object(query)) : () => [];
    const validateHeaders = headers && lazily(Type.Object(toLowerCaseNames(headers)));
    const validateBody = body && lazily(body);

    return (request) => {
      if (!route.anyQuery) {
        const values = readQuery(request.query as QueryText, query);
        throwIfAny(validateQuery(values), 'query', (error) => toParameterError(error, values));
        request.query = values;
      }
      // A form without fields is no body.
      if (route.form) request.body ??= {};
      if (validateBody) throwIfAny(validateBody(request.body), 'body', toFieldError);
      if (validateHeaders) throwIfAny(validateHeaders(request.headers), 'headers', toFieldError);
      if (takesKey(route)) request.idempotency = readIdempotencyKey(request, key === 'required');
    };
  };
}

/** Whether a request can be repeated with an Idempotency-Key. */
export const takesKey = ({ key, route, access }: RequestDeclaration) =>
  key !== undefined || (route.startsWith('POST') && typeof access === 'object');

function readIdempotencyKey(request: FastifyRequest, isRequired: boolean): IdempotentRequest | null {
  const key = request.headers['idempotency-key'];
  if (key === undefined) {
    if (!isRequired) return null;
    const message =
      'Send the header Idempotency-Key: 1 to 200 visible characters of your choice, new for each request.';
    throw new BursarError('idempotency_key_missing', message);
  }
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,200}$/.test(key)) {
    const message = 'The header Idempotency-Key must be sent once and have 1 to 200 visible ASCII characters.';
    throw new BursarError('idempotency_key_invalid', message);
  }
  // Method and normalized path: without the query, the trailing slash and the percent-encoding.
  const segments = request.url.replace(/\?.*/s, '').split('/').filter(Boolean);
  const target = [request.method, ...segments.map(decodeURIComponent)].join('/');
  return { userId: callerOf(request).userId, key, content: [target, request.body ?? null] };
}

/** Node has the names of headers in lower case. */
const toLowerCaseNames = (headers: TProperties) =>
  Object.fromEntries(Object.entries(headers).map(([name, schema]) => [name.toLowerCase(), schema]));

/** Unknown fields are errors, and many errors are reported at once: the limit on JSON bodies bounds the work. */
function createAjv(references: readonly TSchema[]): Ajv {
  // The schemas are our own: tests check them.
  const ajv = new Ajv({
    allErrors: true,
    useDefaults: true,
    strict: false,
    strictNumbers: true,
    validateSchema: false,
  });
  for (const [name, { isValid }] of Object.entries(formats)) ajv.addFormat(name, isValid);
  for (const schema of references) ajv.addSchema(schema);
  return ajv;
}

type QueryText = Record<string, string | string[]>;

/** Throws if the query has an unknown parameter: a misspelt filter would otherwise return everything. */
function readQuery(text: QueryText, known: TProperties): Record<string, unknown> {
  const query: Record<string, unknown> = {};
  for (const name in text) {
    if (!Object.hasOwn(known, name)) throw unknownParameters(Object.keys(text), Object.keys(known));
    query[name] = convert(text[name] ?? '', known[name] as { type?: string });
  }
  return query;
}

const decimalNumber = /^[+-]?\d+(\.\d+)?$/;

/** Converts a text to the type of its parameter. One that cannot be converted stays a text, which the schema refuses. */
function convert(value: string | string[], { type }: { type?: string }): unknown {
  if (type === 'array') return [value].flat().map(withoutNul);
  if (typeof value === 'object') return value;
  if ((type === 'integer' || type === 'number') && decimalNumber.test(value)) return Number(value);
  if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true';
  return withoutNul(value);
}

function unknownParameters(names: readonly string[], known: readonly string[]): BursarError {
  const unknown = names.filter((name) => !known.includes(name));
  const fields = unknown.slice(0, maxReportedErrors).map((name) => {
    const hint = known.length === 0 ? 'this path has none.' : `did you mean ${closest(name, known)}?`;
    return { field: toPrintableName(name), message: `is not a known query parameter; ${hint}` };
  });
  const list = fields.map(({ field, message }) => `"${field}" ${message}`).join(' ');
  const advice = known.length === 0 ? 'Remove the query.' : `Known are ${known.join(', ')}.`;
  return new BursarError('bad_request', `The query is not valid: ${list} ${advice}`, { fields });
}

/** The errors of Ajv are not kept as the cause: there may be thousands. */
function throwIfAny(
  errors: readonly ErrorObject[],
  part: 'query' | 'body' | 'headers',
  toField: (error: ErrorObject) => FieldError,
): void {
  if (errors.length === 0) return;
  const fields = errors.slice(0, maxReportedErrors).map(toField);
  const list = fields.map(({ field, message }) => (part === 'body' ? `${field} ${message}` : `"${field}" ${message}`));
  const more = errors.length > fields.length ? `; and ${errors.length - fields.length} more` : '';
  const subject = { query: 'The query is', body: 'The request is', headers: 'The headers are' }[part];
  const code = part === 'body' ? 'invalid_body' : 'bad_request';
  throw new BursarError(code, `${subject} not valid: ${list.join('; ')}${more}.`, { fields });
}

/** Items of a list have the name of their parameter. */
function toParameterError(error: ErrorObject, values: Record<string, unknown>): FieldError {
  const { field, message } = toFieldError(error);
  const name = field.split('.', 1)[0] ?? '';
  const isRepeated = Array.isArray(values[name]) && !error.schemaPath.startsWith(`#/properties/${name}/items`);
  if (error.keyword === 'maxItems')
    return { field: name, message: `must be given at most ${error.params.limit} times` };
  return { field: name, message: isRepeated ? 'must be given once' : message };
}

function toFieldError({ instancePath, keyword, params, message }: ErrorObject): FieldError {
  const path = instancePath.slice(1).replaceAll('/', '.');
  const unknownField: string | undefined = params.additionalProperty;
  const name = unknownField === undefined ? params.missingProperty : toPrintableName(unknownField);
  const field = [path, name].filter(Boolean).join('.') || 'body';
  return { field, message: rules[keyword]?.(params) ?? message ?? 'is not valid' };
}

const types: Record<string, string> = {
  integer: 'must be a whole number, such as 100',
  number: 'must be a decimal number, such as 0.5',
  boolean: 'must be true or false',
  string: 'must be a text',
  array: 'must be a list',
  object: 'must be an object',
};

/** The rule of each keyword of a schema, for a message. */
const rules: Record<string, (params: Record<string, unknown>) => string | undefined> = {
  required: () => 'is required',
  additionalProperties: () => 'is not a known field',
  enum: ({ allowedValues }) => `must be one of ${(allowedValues as string[]).join(', ')}`,
  type: ({ type }) => types[String(type)],
  minimum: ({ limit }) => `must be at least ${limit}`,
  maximum: ({ limit }) => `must be at most ${limit}`,
  maxLength: ({ limit }) => `must have at most ${limit} characters`,
  pattern: ({ pattern }) => Object.values(patterns).find((each) => each.pattern === pattern)?.rule,
  format: ({ format }) => formats[format as keyof typeof formats]?.rule,
};

/** A name that a caller has chosen, for a message. */
const toPrintableName = (name: string) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern finds control characters
  name.slice(0, maxNameLength).replace(/[\u0000-\u001f\u007f-\u009f]/g, '?');

declare module 'fastify' {
  interface FastifyRequest {
    /** The Idempotency-Key with the content of the request. Null without a key. */
    idempotency: IdempotentRequest | null;
  }
}
