import assert from 'node:assert/strict';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { type ApiResponse, type Caller, createCaller, type Exchange } from './api.ts';
import type { TestServer } from './server.ts';

/** The parts of a served OpenAPI document that the tests use. */
export interface OpenApi {
  openapi: string;
  servers: { url: string }[];
  security?: unknown;
  paths: Record<string, Record<string, Operation>>;
  components: {
    schemas: Record<string, object>;
    responses: Record<string, ResponseObject>;
    headers: Record<string, object>;
    parameters: Record<string, Parameter>;
    securitySchemes: Record<string, object>;
  };
}

export interface Operation {
  operationId?: string;
  tags?: string[];
  summary?: string;
  description?: string;
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Record<string, Media> };
  security?: unknown;
  'x-action'?: string;
  responses: Record<string, Reference | ResponseObject>;
}

interface Reference {
  $ref: string;
}

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  example?: unknown;
  schema?: { default?: unknown };
  content?: Record<string, Media>;
}

interface Media {
  schema: { required?: string[]; properties?: Record<string, { default?: unknown }> };
  example?: unknown;
}

export interface ResponseObject {
  description: string;
  headers?: Record<string, Reference>;
  content?: Record<string, Media>;
}

/** A problem document, in the order in which its fields are sent. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  request_id: string;
  errors?: { field: string; message: string }[];
}

/** All paths of the interface description, with its placeholders. */
export const interfacePaths: readonly (readonly [method: 'GET' | 'POST', path: string])[] = [
  ['GET', '/jobs/'],
  ['GET', '/jobs/{hpc}/'],
  ['GET', '/jobs/{hpc}/{project_name}/'],
  ['GET', '/jobs/{hpc}/{project_name}/{job_id}/'],
  ['POST', '/jobs/{hpc}/'],
  ['POST', '/jobs/{hpc}/{project_name}/'],
  ['GET', '/quotas/'],
  ['GET', '/quotas/{hpc}/'],
  ['GET', '/quotas/{hpc}/{project_name}/'],
  ['GET', '/admin/quotas/{user_id}/'],
  ['GET', '/admin/quotas/{user_id}/{hpc}/'],
  ['GET', '/admin/quotas/{user_id}/{hpc}/{project_name}/'],
];

/** The served OpenAPI document, and callers that check every response against it. */
export interface OpenApiContract {
  document: OpenApi;
  callerFor(token: string | null): Caller;
  /** The responses checked so far, as `METHOD path status`. */
  checkedResponses: ReadonlySet<string>;
}

export async function loadOpenApiContract({ url }: Pick<TestServer, 'url'>): Promise<OpenApiContract> {
  const { body: document } = await createCaller(url, null).get<OpenApi>('/openapi.json');
  const findValidator = createValidatorLookup(document);
  const checkedResponses = new Set<string>();

  const check = ({ method, path, response }: Exchange) => {
    checkEnvelope(response);
    const template = findPathTemplate(document, path);
    const operation = template === undefined ? undefined : document.paths[template]?.[method.toLowerCase()];
    const validate = findValidator(template, operation && method.toLowerCase(), response.status, contentType(response));
    const summary = `${method} ${path} ${response.status}: ${response.text.slice(0, 500)}`;
    assert.ok(validate, `the OpenAPI document does not describe ${summary}`);
    assert.ok(validate(response.body), `${summary}\n${JSON.stringify(validate.errors)}`);
    checkedResponses.add(`${method} ${template ?? path} ${response.status}`);
  };
  return { document, callerFor: (token) => createCaller(url, token, check), checkedResponses };
}

/** Checks the headers and the format of errors, which are the same for all paths (interface description, 1). */
function checkEnvelope({ status, headers, text, body }: ApiResponse): void {
  assert.match(headers.get('x-request-id') ?? '', /^[\w.-]{1,64}$/);
  assert.equal(headers.get('x-content-type-options'), 'nosniff');
  if (status < 400) {
    assert.equal(headers.get('content-type'), 'application/json');
    assert.equal(typeof body, 'object', text);
    return;
  }
  assert.equal(headers.get('content-type'), 'application/problem+json');
  const problem = body as Problem;
  assert.deepEqual(Object.keys(problem).slice(0, 6), ['type', 'title', 'status', 'code', 'detail', 'request_id']);
  assert.equal(problem.status, status);
  assert.equal(problem.request_id, headers.get('x-request-id'));
  assert.notEqual(status, 500, text);
  assert.doesNotMatch(text, /\bat .*\.(ts|js|mjs):\d+|node_modules|\/src\//, 'no stack trace and no source path');
}

/** Finds the path template of the document that matches the path of a request, with or without its last slash. */
export function findPathTemplate(document: OpenApi, path: string): string | undefined {
  const [bare = ''] = path.split('?', 1);
  const whole = bare.endsWith('/') ? bare : `${bare}/`;
  return Object.keys(document.paths).find((template) => patternOf(template).test(whole));
}

const patterns = new Map<string, RegExp>();

function patternOf(template: string): RegExp {
  const existing = patterns.get(template);
  if (existing !== undefined) return existing;
  const source = template
    .replace(/\/?$/, '/')
    .replace('{path}', '.+')
    .replace(/\{\w+\}/g, '[^/]+');
  const pattern = new RegExp(`^${source}$`);
  patterns.set(template, pattern);
  return pattern;
}

/** The media type of a response, without its parameters. */
export function contentType({ headers }: { headers: Pick<ReadonlyMap<string, string> | Headers, 'get'> }): string {
  return headers.get('content-type')?.split(';', 1)[0] ?? '';
}

/** By the text of the document. The test files of one process share the compiled schemas. */
const compilers = new Map<string, Ajv2020>();

function findCompiler(document: OpenApi): Ajv2020 {
  // The address of the server is in no schema.
  const text = JSON.stringify({ ...document, servers: [] });
  const existing = compilers.get(text);
  if (existing !== undefined) return existing;
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false, validateFormats: false });
  ajv.addSchema(document, 'openapi.json');
  compilers.set(text, ajv);
  return ajv;
}

/** Finds the schema of a response. On a path that is not described, the only valid response is a problem. */
export function createValidatorLookup(document: OpenApi) {
  const ajv = findCompiler(document);
  const getSchema = (...steps: string[]): ValidateFunction | undefined => {
    const pointer = steps.map((step) => encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1')));
    return ajv.getSchema(`openapi.json#/${pointer.join('/')}`);
  };
  return (
    template: string | undefined,
    method: string | undefined,
    status: number,
    type: string,
  ): ValidateFunction | undefined => {
    if (template === undefined || method === undefined) return getSchema('components', 'schemas', 'Problem');
    const operation = document.paths[template]?.[method];
    const key = findResponseKey(operation, status);
    if (operation === undefined || key === undefined) return undefined;
    if (resolveResponse(document, operation.responses[key])?.content?.[type] === undefined) return undefined;
    const { $ref } = operation.responses[key] as Reference;
    const pointer = $ref === undefined ? ['paths', template, method, 'responses', key] : $ref.split('/').slice(1);
    return getSchema(...pointer, 'content', type, 'schema');
  };
}

function findResponseKey(operation: Operation | undefined, status: number): string | undefined {
  return [String(status), `${Math.floor(status / 100)}XX`].find((name) => operation?.responses[name]);
}

/** The description of a response with this status. */
export function findResponse(document: OpenApi, operation: Operation, status: number): ResponseObject | undefined {
  const key = findResponseKey(operation, status);
  return key === undefined ? undefined : resolveResponse(document, operation.responses[key]);
}

export function resolveResponse(
  { components }: OpenApi,
  response: Reference | ResponseObject | undefined,
): ResponseObject | undefined {
  if (response === undefined || !('$ref' in response)) return response;
  return components.responses[response.$ref.split('/').at(-1) ?? ''];
}
