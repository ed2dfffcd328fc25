import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { createCaller } from '../../support/api.ts';
import { assertCleanLog } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { bearerHeader, type HeaderLine, sendRawRequest } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';

let server: TestServer;
let state: StateSnapshot;
before(async () => {
  server = await startServer();
  state = await takeStateSnapshot(server, [server.userToken, server.adminToken]);
});
after(() => server.dispose());
afterEach(() => state.assertUnchanged());

const readOnly = ['GET', 'HEAD'];
const paths: [string, string[]][] = [
  ['/jobs/', readOnly],
  ['/jobs/hpc_one/', [...readOnly, 'POST']],
  ['/jobs/hpc_two/', [...readOnly, 'POST']],
  ['/jobs/hpc_one/proj_hpc_one_01/', [...readOnly, 'POST']],
  ['/jobs/hpc_one/proj_hpc_one_01/00000000-0000-4000-8000-000000000000/', [...readOnly, 'DELETE']],
  ['/jobs/hpc_one/proj_hpc_one_01/00000000-0000-4000-8000-000000000000/cancel/', ['POST']],
  ['/admin/jobs/hpc_one/proj_hpc_one_01/00000000-0000-4000-8000-000000000000/', [...readOnly, 'DELETE']],
  ['/quotas/', readOnly],
  ['/quotas/hpc_one/', readOnly],
  ['/quotas/hpc_one/proj_hpc_one_01/', readOnly],
  ['/admin/quotas/301330/', readOnly],
  ['/admin/quotas/301330/hpc_one/', readOnly],
  ['/admin/quotas/301330/hpc_one/proj_hpc_one_01/', readOnly],
];
const methods = ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

const bodies: [string, HeaderLine[], string][] = [
  ['without a body', [], ''],
  ['with an empty body', [['content-length', '0']], ''],
  [
    'with an empty body of JSON',
    [
      ['content-type', 'application/json'],
      ['content-length', '0'],
    ],
    '',
  ],
  ['with a body that is not JSON', [['content-type', 'application/json']], '{"title": '],
  ['with a body of an unknown type', [['content-type', 'application/x-unheard-of']], 'hello'],
  ['with a body of a malformed type', [['content-type', ';;;']], 'hello'],
  ['with a chunked body', [['transfer-encoding', 'chunked']], '5\r\nhello\r\n0\r\n\r\n'],
  ['with a body of 1 MB', [['content-type', 'application/zip']], 'x'.repeat(1_000_000)],
];

describe('a method that a path does not support', () => {
  async function assertNotAllowed(
    method: string,
    path: string,
    supported: string[],
    headers: HeaderLine[],
    body: string,
  ) {
    const response = await sendRawRequest(server.url, {
      method,
      path,
      headers: [bearerHeader(server.adminToken), ...headers],
      body,
    });
    assertProblem(response, {
      status: 405,
      code: 'method_not_allowed',
      message: new RegExp(`^${method} .*Use (GET|POST)`),
    });
    assert.deepEqual(response.headers.get('allow')?.split(', ').sort(), [...supported].sort());
  }

  for (const [path, supported] of paths) {
    for (const method of methods.filter((each) => !supported.includes(each))) {
      test(`${method} ${path}`, async () => {
        await assertNotAllowed(method, path, supported, [], '');
        await assertNotAllowed(method, path.replace(/\/$/, ''), supported, [], '');
      });
    }
  }

  test('HEAD of a path without GET', async () => {
    const admin = createCaller(server.url, server.adminToken);
    for (const path of ['/quotes/hpc_one/', '/admin/systems/hpc_one/pause/', '/webhooks/1/test/']) {
      const { status, headers } = await admin.send('HEAD', path);
      assert.deepEqual([path, status, headers.get('allow')], [path, 405, 'POST']);
    }
  });

  for (const [name, headers, body] of bodies) {
    test(`${methods.join(', ')} /jobs/ ${name}`, async () => {
      for (const method of methods) await assertNotAllowed(method, '/jobs/', readOnly, headers, body);
    });
  }
});

describe('a method that is supported', () => {
  for (const [path, supported] of paths) {
    test(`${supported.join(', ')} ${path}`, async () => {
      for (const method of supported) {
        const response = await createCaller(server.url, server.adminToken).send(method, path);
        assert.notEqual(response.status, 405);
        assert.ok(response.status < 500, response.text);
      }
    });
  }

  for (const [name, headers, body] of bodies) {
    test(`GET is served ${name}`, async () => {
      for (const path of ['/jobs/', '/quotas/']) {
        const response = await sendRawRequest(server.url, {
          path,
          headers: [bearerHeader(server.userToken), ...headers],
          body,
        });
        if (name === 'with a body of a malformed type') assert.ok(response.status < 500, response.text);
        else assert.equal(response.status, 200, response.text);
      }
    });
  }
});

describe('a content type without a body', () => {
  const requests: [string, string, number][] = [
    ['POST', '/nowhere/', 404],
    ['POST', '/webhooks/', 400],
    ['POST', '/webhooks/1/test/', 404],
    ['DELETE', '/webhooks/1/', 404],
    ['POST', '/admin/projects/hpc_one/proj_hpc_one_01/close/', 400],
    ['DELETE', '/jobs/hpc_one/proj_hpc_one_01/00000000-0000-4000-8000-000000000000/', 404],
    ['POST', '/jobs/hpc_one/proj_hpc_one_01/00000000-0000-4000-8000-000000000000/cancel/', 404],
    ['POST', '/jobs/hpc_one/', 400],
  ];
  for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x']) {
    for (const [method, path, status] of requests) {
      test(`${method} ${path} with ${type} is answered`, async () => {
        const headers: HeaderLine[] = [bearerHeader(server.adminToken), ['content-type', type]];
        const response = await sendRawRequest(server.url, { method, path, headers });
        // Fastify rejects an empty JSON document, and the types that a path does not take, before it looks for more.
        assert.ok([400, status].includes(response.status), response.text);
        assert.equal(response.headers.get('content-type'), 'application/problem+json');
      });
    }
  }
});

describe('a method that no path supports', () => {
  for (const method of ['TRACE', 'PROPFIND', 'LOCK', 'PURGE', 'QUERY', 'LINK']) {
    test(method, async () => {
      const response = await sendRawRequest(server.url, {
        method,
        path: '/jobs/',
        headers: [bearerHeader(server.userToken)],
      });
      assert.ok([400, 404, 405, 501].includes(response.status), response.text);
      assert.equal(response.headers.get('content-type'), 'application/problem+json');
    });
  }

  for (const method of ['HELLO', 'get', 'Post', 'GETGET', 'X'.repeat(1000)]) {
    test(`${method.slice(0, 20)} is not a method of HTTP`, async () => {
      const response = await sendRawRequest(server.url, {
        method,
        path: '/jobs/',
        headers: [bearerHeader(server.userToken)],
      });
      assertProblem(response, { status: 400, code: 'bad_request', message: /well-formed/ });
    });
  }
});

test('a method that is not supported is rejected without a token too, as an unknown path is', async () => {
  for (const [path, supported] of paths) {
    const response = await sendRawRequest(server.url, { method: 'PUT', path, body: 'hello' });
    assertProblem(response, { status: 405, code: 'method_not_allowed', message: /Use (GET|POST)/ });
    assert.deepEqual(response.headers.get('allow')?.split(', ').sort(), [...supported].sort());
  }
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken, server.adminToken]);
});
