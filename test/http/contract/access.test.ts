import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import type { Caller, Job } from '../../support/api.ts';
import { interfacePaths, loadOpenApiContract, type OpenApiContract, type Problem } from '../../support/contract.ts';
import { bashZip, jobPath, listStoredFiles } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';

// Rules of the interface for every path: the bearer token (4 and 5), paths (4), and responses (1 and 7).

let server: TestServer;
let contract: OpenApiContract;
let me: Caller;
let admin: Caller;
let job: Job;

before(async () => {
  // Many requests with bad tokens from one address.
  server = await startServer({ config: { ...shippedConfig(), limits: { failedSignIns: 10_000 } } });
  contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
  admin = contract.callerFor(server.adminToken);
  const { body } = await admin.submit('/jobs/hpc_two/', { tool: 'BASH' }, bashZip);
  job = await admin.waitUntilFinished(body);
});
after(() => server.dispose());

/** Fills in existing names. The administrator owns the job and may use all paths. */
function realPath(template: string): string {
  return template
    .replace('{hpc}', 'hpc_two')
    .replace('{project_name}', 'proj_hpc_two_01')
    .replace('{job_id}', job.job_id)
    .replace('{user_id}', '301330');
}

const submission = { 'content-disposition': 'attachment; filename=job.zip', payload: '{"tool": "BASH"}' };
const headersFor = (method: string): Record<string, string> => (method === 'POST' ? submission : {});
const sendAsAdmin = (method: string, path: string) =>
  admin.send(method, path, headersFor(method), method === 'POST' ? bashZip : undefined);

const badTokens: [what: string, headers: Record<string, string>][] = [
  ['no Authorization', {}],
  ['an empty Authorization', { authorization: '' }],
  ['no token after Bearer', { authorization: 'Bearer' }],
  ['an unknown token', { authorization: `Bearer bursar_${'A'.repeat(43)}` }],
  ['a token of another format', { authorization: 'Bearer eyJhbGciOiJub25lIn0.e30.' }],
  ['another scheme', { authorization: `Basic ${Buffer.from('301330:x').toString('base64')}` }],
];

for (const [method, template] of interfacePaths) {
  test(`5 ${method} ${template} requires the header Authorization: Bearer <ACCESS_TOKEN>`, async () => {
    const anonymous = contract.callerFor(null);
    for (const path of [realPath(template), realPath(template).slice(0, -1)]) {
      for (const [what, authorization] of badTokens) {
        const { status, headers, body } = await anonymous.send(method, path, {
          ...headersFor(method),
          ...authorization,
        });
        assert.equal(status, 401, what);
        assert.match(headers.get('www-authenticate') ?? '', /^Bearer\b/, what);
        assert.match((body as Problem).code, /^token_(missing|invalid)$/, what);
      }
      const bare = await anonymous.send(method, path, { ...headersFor(method), authorization: server.adminToken });
      assert.equal(bare.status, 401, 'a token without Bearer');
    }
  });

  test(`4 ${method} ${template} responds the same with and without the trailing slash`, async () => {
    const path = realPath(template);
    const expected = method === 'POST' ? 201 : 200;
    const slashed = await sendAsAdmin(method, path);
    const bare = await sendAsAdmin(method, path.slice(0, -1));
    assert.deepEqual([slashed.status, bare.status], [expected, expected]);
    if (method === 'GET') assert.equal(bare.text, slashed.text);
    else for (const { body } of [slashed, bare]) await admin.waitUntilFinished(body as Job);
  });

  test(`1 ${method} ${template} responds in JSON, with exactly the Content-Type application/json`, async () => {
    const { headers, text, body } = await sendAsAdmin(method, realPath(template));
    assert.equal(headers.get('content-type'), 'application/json');
    assert.doesNotThrow(() => JSON.parse(text));
    if (method === 'POST') await admin.waitUntilFinished(body as Job);
  });

  test(`7 ${method} ${template}: another method is 405 with Allow`, async () => {
    for (const other of ['PUT', 'PATCH']) {
      const { status, headers, body } = await admin.send(other, realPath(template));
      assert.deepEqual([status, (body as Problem).code], [405, 'method_not_allowed'], other);
      assert.match(headers.get('allow') ?? '', new RegExp(`\\b${method}\\b`));
    }
  });
}

test('5 a request without a valid token leaves no files', async () => {
  const filesBefore = listStoredFiles(server);
  const response = await contract.callerFor('wrong').send('POST', '/jobs/hpc_one/', submission, Buffer.alloc(200_000));
  assert.equal(response.status, 401);
  assert.deepEqual(listStoredFiles(server), filesBefore);
});

test('5 without a token the response does not reveal what exists: unknown systems and projects are 401 too', async () => {
  for (const path of [
    '/jobs/hpc_three/',
    '/jobs/hpc_one/no_project/',
    '/jobs/hpc_one/proj_hpc_one_01/X/',
    '/admin/quotas/9/',
  ]) {
    assert.equal((await contract.callerFor(null).get(path)).status, 401, path);
  }
});

test('5 without a token a single job is 401 for any identifier, even a very long one', async () => {
  for (const id of ['X', 'A'.repeat(2000)]) {
    assert.equal(
      (await contract.callerFor(null).get(`/jobs/hpc_one/proj_hpc_one_01/${id}/`)).status,
      401,
      id.slice(0, 10),
    );
  }
});

test('5 the token is read from the header only', async () => {
  const { status } = await contract
    .callerFor(null)
    .get(`/jobs/?access_token=${server.userToken}&token=${server.userToken}`);
  assert.equal(status, 401);
});

test('5 the scheme is case-insensitive, as in HTTP', async () => {
  for (const scheme of ['bearer', 'BEARER']) {
    const { status } = await contract
      .callerFor(null)
      .send('GET', '/jobs/', { authorization: `${scheme} ${server.userToken}` });
    assert.equal(status, 200);
  }
});

test('5 the identity carried by the token is the caller: owner of jobs, and user of the quotas on /quotas/', async () => {
  const first = await server.token('301339');
  const second = await server.token('301339', { name: 'another one' });
  assert.notEqual(first, second);
  const { body: submitted } = await contract.callerFor(first).submit('/jobs/hpc_two/', { tool: 'BASH' }, bashZip);
  assert.equal(submitted.owner, '301339');
  await contract.callerFor(first).waitUntilFinished(submitted);
  const { body: read } = await contract.callerFor(second).get<Job>(jobPath(submitted));
  assert.equal(read.owner, '301339');
  for (const token of [first, second]) {
    const { body: quotas } = await contract.callerFor(token).get<{ user: string }[]>('/quotas/');
    assert.ok(quotas.every(({ user }) => user === '301339'));
  }
});

test('4 optional path segments are positional: a later segment without the earlier one is 404', async () => {
  for (const path of [
    '/jobs/proj_hpc_one_01/',
    `/jobs/${job.job_id}/`,
    `/jobs/hpc_two/${job.job_id}/`,
    '/jobs//proj_hpc_one_01/',
    `/jobs/hpc_two//${job.job_id}/`,
    '/quotas/proj_hpc_one_01/',
    '/quotas//proj_hpc_one_01/',
    '/admin/quotas/301330/proj_hpc_one_01/',
    '/admin/quotas//hpc_one/',
  ]) {
    assert.equal((await admin.get(path)).status, 404, path);
  }
});

test('4 paths that are longer or shorter than those of the interface are 404', async () => {
  for (const path of [
    '/',
    '/job/',
    '/Jobs/',
    '/admin/',
    '/quotas/hpc_one/proj_hpc_one_01/1/',
    '/admin/quotas/301330/hpc_one/proj_hpc_one_01/1/',
  ]) {
    assert.equal((await admin.get(path)).status, 404, path);
  }
});

// Response headers and errors.

test('every response has a unique X-Request-Id', async () => {
  const ids = new Set<string>();
  for (const path of ['/jobs/', '/jobs/', '/jobs/hpc_three/', '/nowhere/', '/livez', '/openapi.json', '/docs/']) {
    const response = await fetch(server.url + path);
    await response.arrayBuffer();
    ids.add(response.headers.get('x-request-id') ?? '');
  }
  assert.equal(ids.size, 7);
  assert.ok(!ids.has(''));
});

test('a valid X-Request-Id of the client is returned, on success and on errors', async () => {
  for (const path of ['/jobs/', '/jobs/hpc_three/']) {
    for (const id of [randomUUID(), 'my-request_1.2']) {
      const { headers } = await me.send('GET', path, { 'x-request-id': id });
      assert.equal(headers.get('x-request-id'), id);
    }
  }
});

test('an X-Request-Id that is unsafe in a log or a header is replaced', async () => {
  for (const id of ['a b', 'x'.repeat(65), '<script>', '{"a":1}', 'é', server.userToken]) {
    const { headers } = await me.send('GET', '/jobs/', { 'x-request-id': id });
    assert.notEqual(headers.get('x-request-id'), id);
    assert.match(headers.get('x-request-id') ?? '', /^[\w-]{8,64}$/);
  }
});

const problems: [status: number, code: string, cause: () => Promise<{ status: number; body: unknown }>][] = [
  [400, 'invalid_payload', () => me.send('POST', '/jobs/hpc_one/', { ...submission, payload: 'x' })],
  [400, 'invalid_content_disposition', () => me.send('POST', '/jobs/hpc_two/', { payload: '{"tool": "BASH"}' })],
  [400, 'invalid_zip', () => me.send('POST', '/jobs/hpc_two/', submission, 'no zip')],
  [401, 'token_missing', () => contract.callerFor(null).get('/jobs/')],
  [401, 'token_invalid', () => contract.callerFor('nonsense').get('/jobs/')],
  [403, 'forbidden', () => me.get('/admin/quotas/301330/')],
  [404, 'system_unknown', () => me.get('/jobs/hpc_three/')],
  [404, 'project_unknown', () => me.get('/quotas/hpc_one/no_project/')],
  [404, 'job_unknown', () => me.get('/jobs/hpc_one/proj_hpc_one_01/X/')],
  [404, 'user_unknown', () => admin.get('/admin/quotas/999999/')],
  [404, 'not_found', () => me.get('/nowhere/')],
  [405, 'method_not_allowed', () => me.send('DELETE', '/quotas/')],
  [431, 'headers_too_large', () => me.send('GET', '/jobs/', { payload: 'x'.repeat(20_000) })],
];
for (const [status, code, cause] of problems) {
  test(`7 errors are problem documents with a stable code: ${status} ${code}`, async () => {
    const response = await cause();
    const problem = response.body as Problem;
    assert.deepEqual([response.status, problem.status, problem.code], [status, status, code]);
    for (const text of [problem.type, problem.title, problem.detail]) assert.ok(text.length > 10, text);
    assert.ok(problem.type.endsWith(`#${code}`));
  });
}
