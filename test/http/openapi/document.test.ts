import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { patterns } from '../../../src/contract/fields.ts';
import { eventKinds } from '../../../src/domain/event.ts';
import { policy } from '../../../src/domain/identity/policy.ts';
import { statusByCode } from '../../../src/http/response/problem.ts';
import { createCaller, type Job } from '../../support/api.ts';
import {
  findResponse,
  loadOpenApiContract,
  type OpenApi,
  type Operation,
  resolveResponse,
} from '../../support/contract.ts';
import { startServer, type TestServer } from '../../support/server.ts';

// The parts of the document that generators of clients need.

let server: TestServer;
let document: OpenApi;
let operations: Map<string, Operation>;
let ajv: Ajv2020;

before(async () => {
  server = await startServer();
  document = (await loadOpenApiContract(server)).document;
  operations = new Map(
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation]),
    ),
  );
  ajv = new Ajv2020({ strict: false, validateSchema: false, validateFormats: false });
  ajv.addSchema(document, 'openapi.json');
});
after(() => server.dispose());

function operation(id: string): Operation {
  const found = [...operations.values()].find(({ operationId }) => operationId === id);
  assert.ok(found, `there is no operation ${id}`);
  return found;
}

const parameter = (id: string, name: string) => {
  const found = (operation(id).parameters ?? []).find((candidate) => candidate.name === name);
  assert.ok(found, `${id} has no parameter ${name}`);
  return found;
};

const validators = new Map<string, ValidateFunction>();

/** Checks a value against a schema of the document. */
function assertMatches(schema: object, value: unknown, what: string): void {
  const text = JSON.stringify(schema).replaceAll('"#/', '"openapi.json#/');
  const validate = validators.get(text) ?? ajv.compile(JSON.parse(text));
  validators.set(text, validate);
  assert.ok(validate(value), `${what}: ${JSON.stringify(validate.errors)}`);
}

test('every operation has a unique id in camel case, a summary and a description', () => {
  const ids = [...operations.values()].map(({ operationId = '' }) => operationId);
  assert.equal(new Set(ids).size, ids.length);
  for (const [name, { operationId = '', summary, description }] of operations) {
    assert.match(operationId, /^[a-z]+([A-Z][a-z]+)*$/, name);
    assert.ok(summary && description, name);
  }
  for (const [name, id] of [
    ['GET /jobs/', 'listJobs'],
    ['POST /jobs/{hpc}/', 'submitJob'],
    ['GET /jobs/{hpc}/{project_name}/{job_id}/', 'getJob'],
    ['GET /quotas/{hpc}/{project_name}/', 'getQuota'],
    ['GET /admin/quotas/{user_id}/', 'listQuotasOfUser'],
    ['GET /admin/jobs/', 'listJobsOfAllUsers'],
    ['GET /job-summaries/', 'listJobSummaries'],
  ] as const) {
    assert.equal(operations.get(name)?.operationId, id);
  }
});

test('every operation with a token of a user names an action of the policy', () => {
  const actions = new Set(Object.keys(policy));
  for (const [name, { security, tags = [], 'x-action': action }] of operations) {
    const isPublic = security !== undefined || tags.includes('operation');
    assert.equal(action !== undefined && actions.has(action), !isPublic, name);
  }
});

test('the paths are relative to the server of the document', () => {
  assert.deepEqual(
    document.servers.map(({ url }) => url),
    ['/'],
  );
});

describe('the Payload header', () => {
  test('is JSON with typed fields', () => {
    for (const id of ['submitJob', 'submitJobToProject', 'getQuote', 'getQuoteInProject']) {
      const { in: location, required, schema, content } = parameter(id, 'Payload');
      assert.deepEqual([location, required, schema], ['header', true, undefined]);
      assert.deepEqual(content?.['application/json']?.schema, { $ref: '#/components/schemas/Payload' });
    }
    const { schema = {} } = parameter('submitJob', 'Payload').content?.['application/json'] ?? {};
    const numbers = { node_number: '1', core_number: 2, runtime: '0.5', title: 'x' };
    assertMatches(schema, { command: 'true', ...numbers }, 'batch');
    assertMatches(schema, { tool: 'BASH', ...numbers, threads: 4 }, 'tool');
    assert.throws(() => assertMatches(schema, numbers, 'neither a command nor a tool'));
    assert.throws(() => assertMatches(schema, { command: 'true', unknown: 1 }, 'unknown field'));
    assert.throws(() => assertMatches(schema, { command: 'true', node_number: 'two' }, 'not a number'));
  });

  for (const id of ['submitJob', 'submitJobToProject', 'getQuote', 'getQuoteInProject']) {
    test(`the examples of ${id} are a request that works`, async () => {
      const [path = ''] = [...operations].find(([, { operationId }]) => operationId === id) ?? [];
      const headers: Record<string, string> = {};
      let url = path.replace('POST ', '');
      for (const { name, in: location, required, example, content } of operation(id).parameters ?? []) {
        const value = example ?? content?.['application/json']?.example;
        if (required) assert.notEqual(value, undefined, name);
        if (location === 'path') url = url.replace(`{${name}}`, String(value));
        if (location === 'header' && value !== undefined) {
          headers[name] = typeof value === 'string' ? value : JSON.stringify(value);
        }
      }
      assert.notEqual(operation(id).requestBody?.required, true);
      const me = createCaller(server.url, server.userToken);
      const { status, text, body } = await me.send('POST', url, headers);
      assert.equal(status, id.startsWith('submit') ? 201 : 200, text);
      if (status === 201) assert.equal((await me.waitUntilFinished(body as Job)).stage, 'SUCCESSFUL');
    });
  }
});

test('stages, error codes and event types are enumerated', () => {
  const { Stage, ErrorCode, EventType, Job, Problem, Event } = document.components.schemas as Record<
    string,
    { enum?: string[]; properties?: Record<string, object> }
  >;
  const stages = ['QUEUED', 'RUNNING', 'SUCCESSFUL', 'FAILED', 'CANCELED', 'DELETED', 'QUEUE', 'COMPLETED'];
  assert.deepEqual(Stage?.enum?.toSorted(), stages.toSorted());
  assert.deepEqual(ErrorCode?.enum, Object.keys(statusByCode));
  assert.deepEqual(EventType?.enum, [...Object.keys(eventKinds), 'webhook.test']);
  const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });
  assert.deepEqual(Job?.properties?.stage, reference('Stage'));
  assert.deepEqual(parameter('listJobs', 'stage').schema, reference('Stage'));
  assert.deepEqual(Problem?.properties?.code, reference('ErrorCode'));
  assert.deepEqual(Event?.properties?.type, reference('EventType'));
});

describe('examples', () => {
  test('exist for every JSON body and response, and match their schemas', () => {
    for (const [name, { requestBody, responses }] of operations) {
      const parts = Object.entries({ body: requestBody, ...responses });
      for (const [part, described] of parts) {
        const { content = {} } = (part === 'body' ? described : resolveResponse(document, responses[part])) ?? {};
        for (const [type, { schema, example }] of Object.entries(content)) {
          if (!type.endsWith('json')) continue;
          assert.notEqual(example, undefined, `${name} ${part} has no example`);
          assertMatches(schema, example, `${name} ${part}`);
        }
      }
    }
  });
});

describe('headers of responses', () => {
  const described = (id: string, status: number) =>
    Object.keys(findResponse(document, operation(id), status)?.headers ?? {}).map((name) => name.toLowerCase());

  test('are described where they are sent', async () => {
    const me = createCaller(server.url, server.userToken);
    const anonymous = createCaller(server.url, null);
    for (const title of ['first', 'second']) await me.submit('/jobs/hpc_one/', { command: 'true', title });
    const known = new Set(Object.keys(document.components.headers).map((name) => name.toLowerCase()));
    for (const [id, response, expected] of [
      ['listJobs', await me.get('/jobs/?limit=1'), ['etag', 'link']],
      ['listJobs', await anonymous.get('/jobs/'), ['www-authenticate']],
      ['submitJob', await me.submit('/jobs/hpc_one/', { command: 'true' }), []],
      ['getQuota', await me.get('/quotas/hpc_one/proj_hpc_one_01/'), ['etag']],
      ['getUsage', await me.get('/usage/'), []],
      ['getLiveness', await anonymous.get('/livez'), []],
    ] as const) {
      const sent = [...response.headers.keys()].filter((name) => known.has(name));
      assert.deepEqual(sent.toSorted(), described(id, response.status).toSorted(), id);
      for (const name of [...expected, 'x-request-id', 'ratelimit', 'ratelimit-policy']) {
        assert.ok(sent.includes(name), `${id}: ${name}`);
      }
    }
  });

  test('include Retry-After of 429 and 503, and those of a download', () => {
    for (const status of [429, 503]) assert.ok(described('submitJob', status).includes('retry-after'));
    for (const name of ['etag', 'last-modified', 'content-disposition', 'content-range']) {
      assert.ok(described('getJobFile', 206).includes(name), name);
    }
  });
});

test('the media types of responses that are not JSON are described', () => {
  const types = (id: string) => Object.keys(findResponse(document, operation(id), 200)?.content ?? {});
  assert.deepEqual(types('getJobLog'), ['text/plain', 'text/event-stream']);
  assert.deepEqual(types('listEvents'), ['application/json', 'text/event-stream']);
  assert.deepEqual(types('listJobFiles'), ['application/json', 'application/zip']);
  assert.deepEqual(types('getJobFile'), ['application/json', 'application/zip', 'application/octet-stream']);
  for (const id of ['getStatement', 'getUsage', 'getUsageOfAllUsers']) {
    assert.deepEqual(types(id), ['application/json', 'text/csv']);
  }
  assert.deepEqual(types('getMetrics'), ['text/plain']);
  for (const { responses } of operations.values()) {
    for (const status of ['4XX', '5XX']) {
      const { content = {} } = resolveResponse(document, responses[status]) ?? {};
      assert.deepEqual(Object.keys(content), ['application/problem+json']);
    }
  }
});

describe('what is required', () => {
  test('excludes parameters and fields with a default', () => {
    for (const [name, { parameters = [], requestBody }] of operations) {
      for (const { name: parameterName, required, schema } of parameters) {
        if (schema?.default !== undefined) assert.ok(!required, `${name} ${parameterName}`);
      }
      for (const { schema } of Object.values(requestBody?.content ?? {})) {
        const { required = [], properties = {} } = schema;
        for (const field of required) assert.equal(properties[field]?.default, undefined, `${name} ${field}`);
      }
    }
    assert.equal(parameter('getJobLog', 'stream').required, false);
    const { schema } = operation('createProject').requestBody?.content['application/json'] ?? {};
    assert.deepEqual(schema?.required, ['name', 'reason']);
  });

  test('includes Idempotency-Key exactly where a request without it fails', async () => {
    const admin = createCaller(server.url, server.adminToken);
    for (const [name, { parameters = [], requestBody, security }] of operations) {
      // Keys belong to users: requests with which somebody signs in or out have none.
      if (!name.startsWith('POST') || /\{(webhook|delivery)_id\}/.test(name) || security !== undefined) continue;
      const { required } = parameters.find((candidate) => candidate.name === 'Idempotency-Key') ?? {};
      assert.notEqual(required, undefined, `${name} does not describe Idempotency-Key`);
      const path = name
        .replace('POST ', '')
        .replace('{hpc}', 'hpc_one')
        .replace('{project_name}', 'nowhere')
        .replace('{user_id}', '999999');
      const example = requestBody?.content['application/json']?.example;
      if (example === undefined) continue;
      const headers = { 'content-type': 'application/json' };
      const { body } = await admin.send('POST', path, headers, JSON.stringify(example));
      assert.equal((body as { code?: string }).code === 'idempotency_key_missing', required, name);
    }
  });
});

test('every pattern of a request has a rule that a message can state', () => {
  // The Payload header has messages of its own.
  const withoutPayload = [...operations.values()].map(({ parameters = [], requestBody }) => [
    parameters.filter((parameter) => !('name' in parameter && parameter.name === 'Payload')),
    requestBody,
  ]);
  const used = [...JSON.stringify(withoutPayload).matchAll(/"pattern":("(?:[^"\\\\]|\\\\.)*")/g)];
  const known = Object.values(patterns).map(({ pattern }): string => pattern);
  const usedPatterns = new Set(used.map(([, text]) => JSON.parse(text ?? '') as string));
  assert.deepEqual([...usedPatterns].sort(), known.sort());
});

test("the document follows Redocly's recommended rules, except that paths end with a slash", async () => {
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lintFromString({ source: JSON.stringify(document), absoluteRef: 'openapi.json', config });
  // The interface requires the slash.
  const isSlash = ({ ruleId }: { ruleId: string }) => ruleId === 'no-path-trailing-slash';
  assert.ok(problems.some(isSlash), 'the rules were checked');
  assert.deepEqual(
    problems
      .filter((problem) => !isSlash(problem))
      .map(({ severity, ruleId, message, location }) => [severity, ruleId, message, location[0]?.pointer]),
    [],
  );
});
