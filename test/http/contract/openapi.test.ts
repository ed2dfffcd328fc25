import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Script } from 'node:vm';
import { statusByCode } from '../../../src/http/response/problem.ts';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import {
  findPathTemplate,
  findResponse,
  interfacePaths,
  loadOpenApiContract,
  type OpenApiContract,
  type Operation,
} from '../../support/contract.ts';
import { bashZip } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';

// Compares the OpenAPI document with the interface. support/contract.ts checks every response of the contract tests
// against the document.

let server: TestServer;
let contract: OpenApiContract;
let me: Caller;
let admin: Caller;
let anonymous: Caller;
let job: Job;

before(async () => {
  server = await startServer();
  contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
  admin = contract.callerFor(server.adminToken);
  anonymous = createCaller(server.url, null);
  const { body } = await admin.submit('/jobs/hpc_two/', { tool: 'BASH' }, bashZip);
  job = await admin.waitUntilFinished(body);
});
after(() => server.dispose());

function getOperation(method: string, path: string): Operation {
  const operation = contract.document.paths[path]?.[method.toLowerCase()];
  assert.ok(operation, `${method} ${path} is not described`);
  return operation;
}

/** Requests every path of the interface as different callers, and returns method, path, status and media type. */
async function requestAllPaths() {
  const toPath = (template: string) =>
    template
      .replace('{hpc}', 'hpc_two')
      .replace('{project_name}', 'proj_hpc_two_01')
      .replace('{job_id}', job.job_id)
      .replace('{user_id}', '301330');
  const headers = { 'content-disposition': 'attachment; filename=job.zip', payload: '{"tool": "BASH"}' };
  const results = [];
  for (const [method, template] of interfacePaths) {
    const unknown = toPath(template.replace('{hpc}', 'hpc_three').replace('{user_id}', '999999'));
    for (const [caller, path] of [
      [admin, toPath(template)],
      [contract.callerFor(null), toPath(template)],
      [me, toPath(template)],
      [admin, unknown],
    ] as const) {
      const response = await (method === 'POST'
        ? caller.send(method, path, headers, bashZip)
        : caller.send(method, path));
      const { status, headers: responseHeaders } = response;
      results.push({ method, template, status, type: (responseHeaders.get('content-type') ?? '').replace(/;.*/, '') });
    }
  }
  return results;
}

test('/openapi.json is served without a token, as JSON, in version 3.1', async () => {
  const { status, headers, body } = await anonymous.get<{ openapi: string }>('/openapi.json');
  assert.equal(status, 200);
  assert.equal(headers.get('content-type'), 'application/json');
  assert.match(body.openapi, /^3\.1\.\d+$/);
});

test('4 every path and method of the interface is described', () => {
  for (const [method, path] of interfacePaths) getOperation(method, path);
});

for (const [method, path] of interfacePaths) {
  test(`4 ${method} ${path}: its path parameters are described as required`, () => {
    const described = (getOperation(method, path).parameters ?? []).filter((parameter) => parameter.in === 'path');
    const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    assert.deepEqual(
      described.map((parameter) => parameter.name),
      named,
    );
    assert.ok(described.every((parameter) => parameter.required));
  });
}

test('4.2 the headers Content-Disposition and Payload of a submission are described as required', () => {
  for (const path of ['/jobs/{hpc}/', '/jobs/{hpc}/{project_name}/']) {
    const headers = (getOperation('POST', path).parameters ?? []).filter((parameter) => parameter.in === 'header');
    const required = headers.filter((parameter) => parameter.required).map(({ name }) => name.toLowerCase());
    assert.deepEqual(required.toSorted(), ['content-disposition', 'payload']);
  }
});

test('4.2 the body of a submission is described: a zip, or a multipart form', () => {
  for (const path of ['/jobs/{hpc}/', '/jobs/{hpc}/{project_name}/']) {
    const types = Object.keys(getOperation('POST', path).requestBody?.content ?? {});
    assert.deepEqual(types.toSorted(), ['application/zip', 'multipart/form-data']);
  }
});

test('5 the bearer token is described as required everywhere except on the probes and to sign in', () => {
  const { components, security, paths } = contract.document;
  assert.deepEqual(components.securitySchemes, {
    bearer: { type: 'http', scheme: 'bearer' },
    session: { type: 'apiKey', in: 'cookie', name: '__Host-bursar_session' },
  });
  assert.deepEqual(security, [{ bearer: [] }]);
  assert.deepEqual(paths['/sign-out/']?.post?.security, [{ session: [] }]);
  for (const [method, path] of interfacePaths) assert.equal(getOperation(method, path).security, undefined, path);
  for (const probe of ['/livez', '/readyz']) assert.deepEqual(paths[probe]?.get?.security, []);
});

test('4 the described success status is 201 for submissions and 200 for everything else', () => {
  for (const [method, path] of interfacePaths) {
    const successes = Object.keys(getOperation(method, path).responses).filter((status) => status.startsWith('2'));
    assert.deepEqual(successes, [method === 'POST' ? '201' : '200'], path);
  }
});

test('the responses of every path, including errors, match their schemas', async () => {
  for (const { method, template, status } of await requestAllPaths()) {
    assert.ok(contract.checkedResponses.has(`${method} ${template} ${status}`), `${method} ${template} ${status}`);
  }
  for (const [method, template] of interfacePaths) {
    for (const status of [method === 'POST' ? 201 : 200, 401, ...(template.includes('{') ? [404] : [])]) {
      assert.ok(
        contract.checkedResponses.has(`${method} ${template} ${status}`),
        `${method} ${template} ${status} was not checked`,
      );
    }
  }
});

test('the media type of every response, including errors, is described', async () => {
  const wrong = new Set<string>();
  for (const { method, template, status, type } of await requestAllPaths()) {
    const described = findResponse(contract.document, getOperation(method, template), status);
    const types = Object.keys(described?.content ?? {});
    if (!types.includes(type)) wrong.add(`${method} ${template} ${status}: ${type}, described as ${types.join(', ')}`);
  }
  assert.deepEqual([...wrong], []);
});

test('the schemas are exact: an extra field, a missing field or a wrong type is invalid', async () => {
  const { Ajv2020 } = await import('ajv/dist/2020.js');
  const ajv = new Ajv2020({ strict: false, validateSchema: false, validateFormats: false });
  ajv.addSchema(contract.document, 'openapi.json');
  const { body: quota } = await me.get<object>('/quotas/hpc_one/proj_hpc_one_01/');
  for (const [name, valid] of [
    ['Job', job],
    ['Quota', quota],
  ] as const) {
    const validate = ajv.getSchema(`openapi.json#/components/schemas/${name}`);
    assert.ok(validate?.(valid));
    assert.ok(!validate?.({ ...valid, extra: 1 }));
    for (const field of Object.keys(valid)) {
      const { [field]: _, ...rest } = valid as Record<string, unknown>;
      assert.ok(!validate?.(rest), `${name} without ${field}`);
      assert.ok(!validate?.({ ...valid, [field]: [] }), `${name} with a wrong ${field}`);
    }
  }
});

test('no two paths can match the same URL', () => {
  const segments = (path: string) => path.split('/').filter((segment) => segment !== '');
  const overlap = (a: string, b: string) => a === b || a.startsWith('{') || b.startsWith('{');
  const paths = Object.keys(contract.document.paths);
  const pairs = paths.flatMap((a, index) => paths.slice(index + 1).map((b) => [segments(a), segments(b)] as const));
  const ambiguous = pairs.filter(
    ([a, b]) => a.length === b.length && a.every((segment, index) => overlap(segment, b[index] ?? '')),
  );
  assert.deepEqual(ambiguous, []);
});

test('every path of the document exists', async () => {
  for (const [path, operations] of Object.entries(contract.document.paths)) {
    const filled = path.replaceAll('{user_id}', '1').replace(/\{\w+\}/g, 'x');
    assert.equal(findPathTemplate(contract.document, filled), path);
    const { status } = await anonymous.get(filled);
    const isOpen = Object.values(operations).every(({ security }) => security !== undefined);
    const getStatus = isOpen ? (path === '/clients/{name}' ? 404 : 200) : 401;
    assert.equal(status, operations.get === undefined ? 405 : getStatus, path);
  }
});

test('/docs/ serves a page and all of its resources', async () => {
  for (const path of ['/docs/', '/docs']) {
    const { status, headers, text } = await anonymous.send('GET', path);
    assert.equal(status, 200);
    assert.match(headers.get('content-type') ?? '', /^text\/html\b/);
    const needed = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(
      (match) => new URL(match[1] ?? '', server.url + path),
    );
    assert.ok(needed.length > 2);
    for (const { origin, pathname } of needed) {
      assert.equal(origin, server.url, 'no resource of another origin');
      assert.equal((await anonymous.send('GET', pathname)).status, 200, pathname);
    }
  }
});

test('the type of a problem leads to its code in a page that lists every code once', async () => {
  const { body } = await me.get<{ type: string }>('/jobs/hpc_three/');
  const { pathname, hash } = new URL(body.type, server.url);
  assert.equal(hash, '#system_unknown');
  const { status, headers, text } = await anonymous.send('GET', pathname);
  assert.equal(status, 200, body.type);
  assert.match(headers.get('content-type') ?? '', /^text\/html\b/);
  const anchors = [...text.matchAll(/ id="(\w+)"/g)].map(([, id]) => id);
  assert.deepEqual(anchors, Object.keys(statusByCode));
});

test('/docs/ keeps the token in the session of the tab, and nowhere else', async () => {
  const { text } = await anonymous.send('GET', '/docs/static/swagger-initializer.js');
  assert.match(text, /sessionStorage\.setItem\(/);
  assert.match(text, /sessionStorage\.getItem\(/);
  assert.doesNotMatch(text, /localStorage|persistAuthorization\W*true/);
  // The page runs the text, so it must be complete.
  new Script(text);
});

for (const probe of ['/livez', '/readyz']) {
  test(`${probe} is 200 without a token`, async () => {
    const { status, body } = await anonymous.get(probe);
    assert.deepEqual([status, body], [200, { status: 'ok' }]);
  });
}
