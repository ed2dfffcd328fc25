import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { loadOpenApiContract, type OpenApi } from '../../support/contract.ts';
import { submitShellLine } from '../../support/jobs.ts';
import { assertAllProblemsGaveAdvice, assertProblem } from '../../support/problems.ts';
import { startServer, type TestServer } from '../../support/server.ts';

// Query parameters that a route does not have are 400 and named, with the nearest known name.

let server: TestServer;
let document: OpenApi;
let me: Caller;
let admin: Caller;

before(async () => {
  server = await startServer();
  ({ document } = await loadOpenApiContract(server));
  me = createCaller(server.url, server.userToken);
  admin = createCaller(server.url, server.adminToken);
  // The first record of the audit trail.
  const headers = { 'content-type': 'application/json' };
  assert.equal((await me.send('POST', '/me/tokens/', headers, '{"name":"recorded"}')).status, 201);
});
after(() => server.dispose());

const unknown = { status: 400, code: 'bad_request' };

test('an unknown parameter is 400 for every path and method of the API', async () => {
  let operations = 0;
  for (const [template, methods] of Object.entries(document.paths)) {
    const path = template.replaceAll('{user_id}', '301330').replace(/\{\w+\}/g, 'x');
    for (const method of Object.keys(methods)) {
      const response = await admin.send(method.toUpperCase(), `${path}?zzz=1`);
      const problem = assertProblem(response, { ...unknown, message: /"zzz" is not a known query parameter/ });
      assert.deepEqual(
        problem.errors?.map(({ field }) => field),
        ['zzz'],
        `${method} ${path}`,
      );
      operations++;
    }
  }
  assert.ok(operations > 60, String(operations));
  for (const path of ['/openapi.json', '/metrics']) assertProblem(await me.get(`${path}?zzz=1`), unknown);
});

test('every rule of a described parameter is checked, and the parameter is named', async () => {
  let rules = 0;
  for (const [template, methods] of Object.entries(document.paths)) {
    const path = template.replaceAll('{user_id}', '301330').replace(/\{\w+\}/g, 'x');
    for (const [method, { parameters = [] }] of Object.entries(methods)) {
      for (const { in: place, name, schema } of parameters) {
        // Texts without a rule, such as a title, accept anything.
        if (place !== 'query' || /^\{"type":"string"(,"maxLength":\d+)?\}$/.test(JSON.stringify(schema))) continue;
        const reply = await admin.send(method.toUpperCase(), `${path}?${name}=!`, { accept: 'application/json' });
        const { errors } = assertProblem(reply, {
          status: 400,
          code: 'bad_request',
          message: new RegExp(`"${name}" m`),
        });
        assert.deepEqual(
          errors?.map(({ field }) => field),
          [name],
          `${method} ${path}`,
        );
        rules++;
      }
    }
  }
  assert.ok(rules > 60, String(rules));
});

for (const [path, nearest] of [
  ['/jobs/?limt=1', 'limit'],
  ['/jobs/hpc_one/?Stage=RUNNING', 'stage'],
  ['/jobs/hpc_one/proj_hpc_one_01/X/log/?folow=1', 'follow'],
  ['/files/hpc_one/proj_hpc_one_01/X/?archiv=zip', 'archive'],
  ['/files/hpc_one/proj_hpc_one_01/X/a/b.txt?arch=zip', 'archive'],
  ['/events/?aftr=1', 'after'],
  ['/usage/?fromat=csv', 'format'],
  ['/admin/jobs/?limit=1&tittle=x', 'title'],
  ['/admin/audit/?befor=1', 'before'],
] as const) {
  test(`GET ${path}: did you mean ${nearest}?`, async () => {
    assertProblem(await admin.get(path), { ...unknown, message: new RegExp(`did you mean ${nearest}\\?`) });
  });
}

for (const path of [
  '/events/?after=0&limit=',
  '/events/?after=0&wait=',
  '/admin/audit/?limit=',
  '/admin/audit/?before=',
  '/webhooks/1/deliveries/?limit=',
  '/jobs/?limit=',
]) {
  test(`GET ${path}… accepts decimal numbers only`, async () => {
    const headers = { accept: 'application/json' };
    for (const number of ['0x10', '1e1', '0b1', '0o7', '%205', '1_0', '.5', '']) {
      const response = await admin.send('GET', path + number, headers);
      assertProblem(response, { status: 400, code: 'bad_request', message: /number|integer/ });
    }
    assert.notEqual((await admin.send('GET', `${path}1`, headers)).status, 400);
  });
}

test('a path without parameters says so, and several unknown ones are all named', async () => {
  const one = assertProblem(await me.get('/quotas/?a=1&b=2'), { ...unknown, message: /this path has none/ });
  assert.deepEqual(
    one.errors?.map(({ field }) => field),
    ['a', 'b'],
  );
  const names = Array.from({ length: 500 }, (_, index) => `name${index}`);
  const many = assertProblem(await me.get(`/jobs/?${names.join('&')}`), unknown);
  assert.equal(many.errors?.length, 20);
});

test('a list that is cached is not served for a URL with an unknown parameter', async () => {
  for (let repetition = 0; repetition < 3; repetition++) {
    assert.equal((await me.get('/jobs/')).status, 200);
    assert.equal((await me.get('/jobs/?limit=5')).status, 200);
    assertProblem(await me.get('/jobs/?limit=5&x'), unknown);
    assert.equal((await me.send('HEAD', '/jobs/?x')).status, 400);
  }
});

test('a submission with an unknown parameter stores nothing', async () => {
  const before = (await me.get<Job[]>('/jobs/')).body.length;
  assertProblem(await submitShellLine(me, '/jobs/hpc_one/?dry_run=1', 'true'), unknown);
  assert.equal((await me.get<Job[]>('/jobs/')).body.length, before);
});

test('the token is checked first, and an unknown path stays 404', async () => {
  const anonymous = createCaller(server.url, null);
  assertProblem(await anonymous.get('/jobs/?zzz=1'), { status: 401, code: 'token_missing' });
  assertProblem(await anonymous.get('/nowhere/?zzz=1'), { status: 404, code: 'not_found' });
  assertProblem(await me.send('PUT', '/jobs/?zzz=1'), { status: 405, code: 'method_not_allowed' });
});

test('the pages of the API reference accept any parameter', async () => {
  for (const path of ['/docs/?v=1', '/docs/static/swagger-ui.css?v=1']) {
    assert.equal((await me.send('GET', path)).status, 200, path);
  }
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());
