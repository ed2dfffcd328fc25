import type { TProperties, TSchema } from 'typebox';
import { exampleOf, stageSchema } from '../../contract/fields.ts';
import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import type { Operation, ResponseDescription } from '../operation.ts';
import { type HeaderName, headerComponents, toHeaderReferences } from '../response/headers.ts';
import { ProblemSchema, toProblem } from '../response/problem.ts';
import { type ExampleSystem, parameterComponents, toParameters } from './parameters.ts';

const tags = [
  { name: 'jobs', description: 'Submit, read, cancel and delete jobs' },
  { name: 'files', description: 'Files that jobs produce' },
  { name: 'events', description: 'Changes to jobs and quotas as they happen' },
  { name: 'webhooks', description: 'Events sent to a URL of yours' },
  { name: 'quotas', description: 'Remaining time and space, quotes, statements and usage' },
  { name: 'account', description: 'Your account, and your tokens' },
  { name: 'systems', description: 'Limits, tools and health of the HPC systems' },
  { name: 'administration', description: 'Requests for administrators' },
  { name: 'clients', description: 'The command line and the libraries, to install from this server' },
  { name: 'operation', description: 'Probes and metrics for the operators of the service' },
];

const zipContent = {
  'application/zip': { schema: { type: 'string', format: 'binary' } },
  'multipart/form-data': {
    schema: {
      type: 'object',
      required: ['file'],
      properties: { file: { type: 'string', format: 'binary', description: 'The zip.' } },
    },
  },
};

const needsToken = ({ access, checks }: Operation) => typeof access === 'object' || checks !== undefined;

interface ErrorResponse {
  status: string;
  /** Default: all operations have it. */
  appliesTo?(operation: Operation): boolean;
  description: string;
  headers: readonly HeaderName[];
  example: [code: ErrorCode, detail: string];
}

/** The error responses of all operations, by their names in the document. */
const errorResponses: Record<string, ErrorResponse> = {
  Unauthorized: {
    status: '401',
    appliesTo: needsToken,
    description: 'There is no token, or it is not valid.',
    headers: ['WWW-Authenticate'],
    example: ['token_missing', 'Send the header Authorization with a bearer token.'],
  },
  Forbidden: {
    status: '403',
    appliesTo: needsToken,
    description:
      'The role of the caller, or the scopes of the token, do not allow the request. `x-action` is the action.',
    headers: ['WWW-Authenticate'],
    example: ['insufficient_scope', 'This token does not have the scope jobs:read. Use a token that has it.'],
  },
  NotFound: {
    status: '404',
    appliesTo: ({ route }) => route.includes('{'),
    description: 'The path names something that does not exist, or that the caller cannot see.',
    headers: [],
    example: ['system_unknown', 'There is no HPC system with this name. Use one of hpc_one, hpc_two.'],
  },
  TooManyRequests: {
    status: '429',
    description:
      'A rate limit, or a limit on unfinished jobs or open streams, is reached. Repeat the request after `Retry-After`.',
    headers: ['Retry-After'],
    example: ['too_many_requests', 'The limit is 5000 requests with one token within 10 s.'],
  },
  ClientError: {
    status: '4XX',
    description: 'The request is not valid, not allowed, or not possible now. `code` says why.',
    headers: ['Allow', 'Retry-After'],
    example: ['bad_request', 'The query is not valid: "limit" must be at least 1.'],
  },
  Unavailable: {
    status: '503',
    description: 'The service or the HPC system is unavailable for some time. Repeat the request after `Retry-After`.',
    headers: ['Retry-After'],
    example: ['database_unavailable', 'The database is not available now. Try again.'],
  },
  ServerError: {
    status: '5XX',
    description: 'An error of the server. Report it to the operators with its `request_id`.',
    headers: [],
    example: ['internal', 'The request failed because of an internal error.'],
  },
};

type JsonObject = Record<string, unknown>;

/** The OpenAPI document of the operations, with examples that work on one of the systems. */
export function openApiDocument(
  operations: readonly Operation[],
  version: string,
  systems: readonly ExampleSystem[],
): object {
  // A batch system is the better example: its jobs need no zip.
  const example = systems.find(({ system }) => system.kind === 'batch') ?? systems[0];
  const paths: Record<string, JsonObject> = {};
  for (const operation of operations) {
    const [method = '', path = ''] = operation.route.split(' ');
    paths[path] = { ...paths[path], [method.toLowerCase()]: toOperation(operation, example) };
  }
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Bursar',
      version,
      description:
        'Submits jobs to HPC systems, reports their progress, and accounts for time and space. Every request needs a ' +
        'token, except those tagged `operation` and those with which programs and browsers sign in. All errors are problem documents; [their codes](/docs/errors).',
      contact: { name: 'The operators of this service' },
      license: { name: 'Apache 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The server that serves this document' }],
    tags,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        session: { type: 'apiKey', in: 'cookie', name: '__Host-bursar_session' },
      },
      schemas: {},
      parameters: parameterComponents(),
      responses: errorComponents(),
      headers: headerComponents(),
    },
    security: [{ bearer: [] }],
    paths,
  };
  return withReferences(document, stageSchema(systems.map(({ system }) => system)));
}

/**
 * Leaves out what is undefined, and moves schemas with a name to the components, so that generated clients have a type for each of them. TypeBox schemas are JSON
 * Schema, as OpenAPI 3.1 has it: nothing else differs.
 */
function withReferences(document: { components: { schemas: object } }, stage: TSchema): object {
  const named = new Map<string, TSchema>();
  const refer = (value: unknown) =>
    JSON.parse(
      JSON.stringify(value, (key, part) => {
        if (key === '$ref' && !part.startsWith('#')) return `#/components/schemas/${part}`;
        if (part?.$id === undefined) return part;
        named.set(part.$id, part);
        return { $ref: `#/components/schemas/${part.$id}` };
      }),
    );
  const { components, ...rest } = refer(document);
  refer(stage);
  const schemas: JsonObject = {};
  // A named schema may have others in it, which are added while the loop runs.
  for (const [name, schema] of named) schemas[name] = refer({ ...schema, $id: undefined });
  return { ...rest, components: { ...components, schemas } };
}

function toOperation(operation: Operation, example: ExampleSystem | undefined): JsonObject {
  const { id, tag, summary, description, access, checks } = operation;
  const parameters = toParameters(operation, example);
  return {
    operationId: id,
    summary,
    tags: [tag],
    description,
    requestBody: toRequestBody(operation),
    parameters: parameters.length > 0 ? parameters : undefined,
    'x-action': typeof access === 'object' ? access.action : undefined,
    security: needsToken(operation) ? (checks === 'session' ? [{ session: [] }] : undefined) : [],
    responses: {
      ...Object.fromEntries(
        Object.entries(operation.responses).map(([status, response]) => [status, toResponse(response)]),
      ),
      ...errorReferences(operation),
    },
  };
}

const errorComponents = () =>
  Object.fromEntries(
    Object.entries(errorResponses).map(([name, { description, headers, example }]) => {
      const { body } = toProblem(new BursarError(...example), '2486fc51-56d2-4aa0-9cc1-c0392e44d738');
      const content = { 'application/problem+json': { schema: ProblemSchema, example: JSON.parse(body) } };
      return [name, { description, headers: toHeaderReferences(headers), content }];
    }),
  );

/** By status. */
const errorReferences = (operation: Operation) =>
  Object.fromEntries(
    Object.entries(errorResponses)
      .filter(([, { appliesTo }]) => appliesTo?.(operation) ?? true)
      .map(([name, { status }]) => [status, { $ref: `#/components/responses/${name}` }]),
  );

function toRequestBody({ body, form, zip }: Operation): JsonObject | undefined {
  // A job may have no input files.
  if (zip) return { required: false, content: zipContent };
  if (body) return { required: true, content: { 'application/json': toMedia(withoutDefaults(body)) } };
  return form && { required: false, content: { 'application/x-www-form-urlencoded': toMedia(form) } };
}

/** A field with a default need not be sent, although the schema requires it: the validator fills it in. */
function withoutDefaults(body: TSchema): TSchema {
  const { required = [], properties = {} } = body as { required?: string[]; properties?: TProperties };
  const needed = required.filter((name) => !('default' in (properties[name] ?? {})));
  return { ...body, required: needed.length > 0 ? needed : undefined } as TSchema;
}

function toResponse(response: TSchema | ResponseDescription): JsonObject {
  if (!isDescription(response))
    return toResponse({ description: 'Success.', content: { 'application/json': { schema: response } } });
  const { description, headers = [], content } = response;
  const media = Object.entries(content).map(([type, { schema, example }]) => [type, toMedia(schema, example)] as const);
  const isEmpty = media.length === 0;
  return {
    description,
    headers: toHeaderReferences(headers),
    content: isEmpty ? undefined : Object.fromEntries(media),
  };
}

const isDescription = (response: TSchema | ResponseDescription): response is ResponseDescription =>
  'content' in response;

/** A body with an example: by default that of its schema. */
function toMedia(schema: TSchema, given?: unknown): JsonObject {
  const example = given ?? exampleOf(schema);
  const shown = '$id' in schema ? schema : { ...schema, examples: undefined };
  return { schema: shown, example };
}
