import assert from 'node:assert/strict';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { type ApiResponse, type Caller, createCaller, type Exchange } from './api.ts';
import type { TestServer } from './server.ts';

/** The parts of a served OpenAPI document that the tests look at. */
export interface OpenApi {
  openapi: string;
  security?: unknown;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object>; securitySchemes: Record<string, object> };
}

export interface Operation {
  parameters?: { name: string; in: string; required?: boolean }[];
  requestBody?: { content: Record<string, object> };
  security?: unknown;
  responses: Record<string, { content?: Record<string, { schema: object }> }>;
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

/** Every path of the interface, with placeholders as the interface writes them. */
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

/** Callers of whom every answer is held against what the service says of itself, whatever else is tested. */
export interface OpenApiContract {
  document: OpenApi;
  callerFor(token: string | null): Caller;
  /** Which `METHOD path status` have been seen and checked so far. */
  checkedResponses: ReadonlySet<string>;
}

export async function loadOpenApiContract({ url }: Pick<TestServer, 'url'>): Promise<OpenApiContract> {
  const { body: document } = await createCaller(url, null).get<OpenApi>('/openapi.json');
  const validatorOf = createValidatorLookup(document);
  const seen = new Set<string>();

  const check = ({ method, path, response: answer }: Exchange) => {
    checkEnvelope(answer);
    const template = findPathTemplate(document, path);
    const operation = template === undefined ? undefined : document.paths[template]?.[method.toLowerCase()];
    const validate = validatorOf(template, operation && method.toLowerCase(), answer.status);
    const about = `${method} ${path} ${answer.status}: ${answer.text.slice(0, 500)}`;
    assert.ok(validate, `the OpenAPI document does not describe ${about}`);
    assert.ok(validate(answer.body), `${about}\n${JSON.stringify(validate.errors)}`);
    seen.add(`${method} ${template ?? path} ${answer.status}`);
  };
  return { document, callerFor: (token) => createCaller(url, token, check), checkedResponses: seen };
}

/** What holds for every answer on the paths of the interface (1, and the settled form of errors). */
function checkEnvelope({ status, headers, text, body }: ApiResponse): void {
  assert.match(headers.get('x-request-id') ?? '', /^[\w.-]{1,64}$/);
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
  assert.doesNotMatch(text, /\bat .*\.(ts|js|mjs):\d+|node_modules|\/src\//, 'a stack trace or a path of the source');
}

/** The path of the document that a request's path is an instance of, with or without its last slash. */
export function findPathTemplate(document: OpenApi, path: string): string | undefined {
  const [bare = ''] = path.split('?', 1);
  const whole = bare.endsWith('/') ? bare : `${bare}/`;
  return Object.keys(document.paths).find((template) => {
    const pattern = template
      .replace(/\/?$/, '/')
      .replace('{user_id}', '\\d+')
      .replace('{path}', '.+')
      .replace(/\{\w+\}/g, '[^/]+');
    return new RegExp(`^${pattern}$`).test(whole);
  });
}

/** Finds the schema of an answer; anything on a path that is not described is a problem. */
function createValidatorLookup(document: OpenApi) {
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false });
  ajv.addSchema(document, 'openapi.json');
  const at = (...steps: string[]): ValidateFunction | undefined => {
    const pointer = steps.map((step) => encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1')));
    return ajv.getSchema(`openapi.json#/${pointer.join('/')}`);
  };
  return (template: string | undefined, method: string | undefined, status: number): ValidateFunction | undefined => {
    if (template === undefined || method === undefined) return at('components', 'schemas', 'Problem');
    const responses = document.paths[template]?.[method]?.responses ?? {};
    const key = [String(status), `${Math.floor(status / 100)}XX`, 'default'].find((name) => responses[name]);
    const [type] = Object.keys((key && responses[key]?.content) ?? {});
    if (key === undefined || type === undefined) return undefined;
    return at('paths', template, method, 'responses', key, 'content', type, 'schema');
  };
}
