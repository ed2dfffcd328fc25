import type { TProperties, TSchema } from 'typebox';
import { exampleOf, stageSchema } from '../../contract/fields.ts';
import type { Operation, ResponseDescription } from '../operation.ts';
import { headerComponents, toHeaderReferences } from '../response/headers.ts';
import { errorComponents, errorReferences, needsToken } from './error-responses.ts';
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
