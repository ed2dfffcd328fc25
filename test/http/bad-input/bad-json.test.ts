import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { createCaller } from '../../support/api.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { startServer, type TestServer } from '../../support/server.ts';

// JSON bodies that are too large, or have many faults. The response must not be larger than the request.

let server: TestServer;
let state: StateSnapshot;
before(async () => {
  server = await startServer();
  state = await takeStateSnapshot(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => state.assertUnchanged());

const maxBytes = 64 * 1024;
const maxResponseBytes = 20_000;
const paths = ['/webhooks/', '/admin/projects/hpc_one/', '/admin/systems/hpc_one/pause/'];

function post(path: string, body: string, type = 'application/json') {
  const headers = { 'content-type': type, 'idempotency-key': 'a-key' };
  return createCaller(server.url, server.adminToken).send('POST', path, headers, body);
}

/** A JSON document of at most this many bytes, which repeats an item. */
function fill(bytes: number, start: string, item: (index: number) => string, end: string): string {
  let text = start + item(0);
  for (let index = 1; ; index += 1) {
    const next = `,${item(index)}`;
    if (text.length + next.length + end.length > bytes) return text + end;
    text += next;
  }
}

describe('a JSON body that is too large', () => {
  for (const path of paths) {
    test(`is 413 on ${path}`, async () => {
      for (const bytes of [maxBytes + 1, 900_000]) {
        const response = await post(path, `"${'x'.repeat(bytes - 2)}"`);
        const problem = assertProblem(response, { status: 413, code: 'too_large', message: /at most 65\.5 kB/ });
        assert.equal(problem.maxBytes, maxBytes);
      }
    });
  }

  test('is 413 if it has many small items', async () => {
    const response = await post(
      '/webhooks/',
      fill(900_000, '{"url":"https://x/","events":[', () => '0', ']}'),
    );
    assertProblem(response, { status: 413, code: 'too_large' });
  });

  test('is read up to the limit', async () => {
    const response = await post('/webhooks/', `"${'x'.repeat(maxBytes - 2)}"`);
    assertProblem(response, { status: 400, code: 'invalid_body' });
  });
});

describe('a JSON body with many faults', () => {
  const bodies: [string, string][] = [
    ['many items of a wrong type', fill(maxBytes, '{"url":"https://x/","events":[', () => '0', ']}')],
    ['many unknown values', fill(maxBytes, '{"url":"https://x/","events":[', () => '"x"', ']}')],
    ['many unknown fields', fill(maxBytes, '{', (index) => `"${index.toString(36)}":0`, '}')],
    ['long names', fill(maxBytes, '{', (index) => `"${index}${'\\u0000é'.repeat(2000)}":0`, '}')],
  ];
  for (const path of paths) {
    for (const [name, body] of bodies) {
      test(`${name}: ${path} reports at most 20 of them`, async () => {
        const response = await post(path, body);
        const { errors = [] } = assertProblem(response, { status: 400, code: 'invalid_body' });
        assert.ok(errors.length > 0 && errors.length <= 20, `${errors.length} errors`);
        assert.ok(response.text.length < maxResponseBytes, `${response.text.length} bytes`);
        for (const { field } of errors) assert.match(field, /^[^\p{Cc}]{1,100}$/u);
      });
    }
  }

  test('says how many more there are', async () => {
    const { body } = await post(
      '/webhooks/',
      fill(1000, '{', (index) => `"f${index}":0`, '}'),
    );
    assert.match((body as { detail: string }).detail, /; and \d+ more\.$/);
  });
});

test('a value of another type is 400, and is not converted', async () => {
  const valid = { kind: 'top_up', resource: 'time', amount: 60, reason: 'because of a test' };
  for (const [field, value, message] of [
    ['amount', '60', 'must be a whole number, such as 100'],
    ['amount', null, 'must be a whole number, such as 100'],
    ['amount', true, 'must be a whole number, such as 100'],
    ['amount', 0, 'must be at least 1'],
    ['reason', 17, 'must be a text'],
    ['kind', 'give', 'must be one of top_up, withdraw'],
  ] as const) {
    const response = await post('/admin/grants/hpc_one/proj_hpc_one_01/', JSON.stringify({ ...valid, [field]: value }));
    const { errors } = assertProblem(response, { status: 400, code: 'invalid_body' });
    assert.deepEqual(errors, [{ field, message }]);
  }
});

test('a number beyond the range of numbers is 400 in a query and in a body', async () => {
  const admin = createCaller(server.url, server.adminToken);
  for (const number of ['1e309', '-1e309']) {
    for (const query of [`limit=${number}`, `before=${number}`])
      assertProblem(await admin.get(`/admin/audit/?${query}`), { status: 400, code: 'bad_request' });
    const grant = `{"kind":"top_up","resource":"time","amount":${number},"reason":"a test"}`;
    const response = await post('/admin/grants/hpc_one/proj_hpc_one_01/', grant);
    assertProblem(response, { status: 400, code: 'invalid_body' });
  }
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());
