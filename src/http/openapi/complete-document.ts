import type { HpcSystem } from '../../domain/systems/system.ts';
import type { Media, OpenApiDocument, Operation, Parameter, ResponseObject, Schema } from './document-types.ts';
import { errorResponses } from './error-responses.ts';
import { type HeaderName, responseHeaders } from './response-headers.ts';

/** A configured system, for examples that work. */
export interface ExampleSystem {
  system: HpcSystem;
  defaultProject: string;
}

const commonHeaders: HeaderName[] = ['X-Request-Id', 'RateLimit', 'RateLimit-Policy'];

/** Request headers that follow from a response. Fastify need not validate them, so no route schema has them. */
const conditionalHeaders: Record<string, Record<string, string>> = {
  '206': {
    Range: 'The bytes to read, such as `bytes=0-99`.',
    'If-Range': 'The range is valid for the version with this `ETag` only; otherwise the whole file is sent.',
  },
  '304': { 'If-None-Match': 'The `ETag` of the version that you have. If it is current, the response is 304.' },
};

/**
 * Completes the document that @fastify/swagger generates from the schemas of the routes: error responses and headers that
 * all routes share, examples, and facts that JSON Schema expresses differently from OpenAPI.
 */
export function completeDocument(document: OpenApiDocument, example: ExampleSystem | undefined): OpenApiDocument {
  const { components, paths } = document;
  components.parameters = Object.fromEntries(
    Object.values(conditionalHeaders)
      .flatMap((headers) => Object.entries(headers))
      .map(([name, description]) => [name, { name, in: 'header', description, schema: { type: 'string' } }]),
  );
  components.responses = errorResponses(commonHeaders);
  for (const path of Object.values(paths)) {
    for (const operation of Object.values(path)) {
      completeParameters(operation, example);
      completeBody(operation);
      completeResponses(operation);
      for (const media of mediaOf(operation)) addExample(media, components.schemas);
    }
  }
  const used = new Set(JSON.stringify(document).match(/(?<=#\/components\/headers\/)[\w-]+/g));
  components.headers = Object.fromEntries(
    Object.entries(responseHeaders)
      .filter(([name]) => used.has(name))
      .map(toHeader),
  );
  return document;
}

function toHeader([name, { description, examples, ...schema }]: [string, Schema & { description?: string }]) {
  const [example] = examples ?? [];
  return [name, { ...(description && { description }), schema, ...(example !== undefined && { example }) }] as const;
}

function completeParameters(operation: Operation, example: ExampleSystem | undefined): void {
  const parameters = (operation.parameters ?? []).map((parameter) =>
    '$ref' in parameter ? parameter : completeParameter(parameter, example),
  );
  const references = Object.entries(conditionalHeaders)
    .filter(([status]) => operation.responses[status] !== undefined)
    .flatMap(([, headers]) => Object.keys(headers))
    .map((name) => ({ $ref: `#/components/parameters/${name}` }));
  if (parameters.length + references.length > 0) operation.parameters = [...parameters, ...references];
}

function completeParameter(parameter: Parameter, example: ExampleSystem | undefined): Parameter {
  const { schema = {}, ...rest } = parameter;
  const name = parameter.in === 'header' ? toHeaderName(parameter.name) : parameter.name;
  // Ajv fills in defaults before it checks `required`.
  const required = parameter.required === true && schema.default === undefined;
  const value = exampleValue(parameter, example);
  const common = { ...rest, name, required, ...(value !== undefined && { example: value }) };
  const { contentMediaType, contentSchema } = schema;
  if (contentMediaType === undefined || contentSchema === undefined) return { ...common, schema };
  // A text that contains JSON is a parameter with `content` in OpenAPI.
  const { example: _, ...withContent } = common;
  return { ...withContent, content: { [contentMediaType]: { schema: contentSchema, example: value } } };
}

/** Route schemas have header names in lower case, as Node does. */
function toHeaderName(name: string): string {
  return name.replace(/(^|-)[a-z]/g, (text) => text.toUpperCase());
}

/** Names of a configured system, so that a request with the examples works. */
function exampleValue({ name, example: value }: Parameter, example: ExampleSystem | undefined): unknown {
  if (value !== undefined || example === undefined) return value;
  if (name === 'hpc') return example.system.name;
  if (name === 'project_name') return example.defaultProject;
  if (name === 'payload') return examplePayload(example.system);
  return undefined;
}

function examplePayload({ kind, tools }: HpcSystem): object {
  const [tool = 'NAME'] = Object.keys(tools);
  const program = kind === 'batch' ? { command: 'sbatch --wrap="hostname; date"' } : { tool };
  return { ...program, node_number: '1', core_number: '1', runtime: '0.1', title: 'First job' };
}

function completeBody({ requestBody }: Operation): void {
  if (requestBody === undefined) return;
  // Bodies of other types are zips, and a job may have no input files.
  requestBody.required = requestBody.content['application/json'] !== undefined;
  for (const { schema } of Object.values(requestBody.content)) {
    if (schema?.required === undefined) continue;
    schema.required = schema.required.filter((name) => schema.properties?.[name]?.default === undefined);
    if (schema.required.length === 0) delete schema.required;
  }
}

function completeResponses(operation: Operation): void {
  const { responses } = operation;
  for (const response of Object.values(responses) as ResponseObject[]) {
    const names = [...Object.keys(response.headers ?? {}), ...commonHeaders];
    response.headers = Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
  }
  const isPublic = operation.security?.length === 0;
  for (const [status, name] of [
    ...(isPublic ? [] : [['401', 'Unauthorized']]),
    ['429', 'TooManyRequests'],
    ['4XX', 'ClientError'],
    ['503', 'Unavailable'],
    ['5XX', 'ServerError'],
  ] as const) {
    if (status !== undefined) responses[status] = { $ref: `#/components/responses/${name}` };
  }
}

function mediaOf({ requestBody, responses }: Operation): Media[] {
  const contents = [requestBody, ...(Object.values(responses) as ResponseObject[])].map((part) => part?.content ?? {});
  return contents.flatMap((content) => Object.values(content));
}

function addExample(media: Media, schemas: Record<string, Schema>): void {
  const example = media.example ?? exampleOf(media.schema, schemas);
  if (example !== undefined) media.example = example;
}

/** The example of a schema, of the component that it refers to, or of the items of a list. */
function exampleOf(schema: Schema | undefined, schemas: Record<string, Schema>): unknown {
  if (schema?.$ref !== undefined) return exampleOf(schemas[schema.$ref.split('/').at(-1) ?? ''], schemas);
  if (schema?.examples !== undefined) return schema.examples[0];
  if (schema?.type !== 'array') return undefined;
  const item = exampleOf(schema.items, schemas);
  return item === undefined ? undefined : [item];
}
