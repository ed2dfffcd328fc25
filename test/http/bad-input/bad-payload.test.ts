import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Job } from '../../support/api.ts';
import type { Hpc } from '../../support/jobs.ts';
import { assertCleanLog } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { bearerHeader, sendRawRequest } from '../../support/raw-http.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { createPayloadSender, valid } from './send-payload.ts';

let server: TestServer;
let state: StateSnapshot;
before(async () => {
  server = await startServer();
  state = await takeStateSnapshot(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => state.assertUnchanged());

const { submit, assertFieldRejected } = createPayloadSender(() => server);

describe('rejects a Payload', () => {
  test('that is missing', async () => {
    assertProblem(await submit('hpc_one'), { status: 400, code: 'invalid_payload', message: /missing.*Send it/ });
  });

  test('that is nested three thousand deep, with an Idempotency-Key too', async () => {
    const payload = `{"command":"true","title":${'['.repeat(3000)}${']'.repeat(3000)}}`;
    for (const path of ['/jobs/hpc_one/', '/jobs/hpc_one/proj_hpc_one_01/', '/quotes/hpc_one/']) {
      const headers = [
        bearerHeader(server.userToken),
        ['content-disposition', 'attachment; filename=job.zip'],
        ['payload', payload],
        ['idempotency-key', `deep ${path}`.replace(' ', '-')],
      ] as [string, string][];
      const response = await sendRawRequest(server.url, { method: 'POST', path, headers });
      const code = path.startsWith('/jobs/') ? 'bad_request' : 'invalid_payload';
      assertProblem(response, { status: 400, code, message: /nested more than 100 levels|title: must be a string/ });
    }
  });

  test('that was sent twice', async () => {
    const payload = JSON.stringify(valid.hpc_one);
    const response = await submit('hpc_one', payload, payload);
    assertProblem(response, { status: 400, code: 'invalid_payload', message: /2 times/ });
  });

  test('that was sent twenty times', async () => {
    const response = await submit('hpc_one', ...Array<string>(20).fill(JSON.stringify(valid.hpc_one)));
    assertProblem(response, { status: 400, code: 'invalid_payload', message: /20 times/ });
  });

  test('of 70 kB', async () => {
    const response = await submit('hpc_one', JSON.stringify({ ...valid.hpc_one, title: 'x'.repeat(70_000) }));
    assertProblem(response, { status: 431, code: 'headers_too_large', message: /16 KiB.*Shorten/ });
  });

  test('of 1 MB', async () => {
    const response = await submit('hpc_one', JSON.stringify({ ...valid.hpc_one, title: 'x'.repeat(1_000_000) }));
    assertProblem(response, { status: 431, code: 'headers_too_large', message: /16 KiB.*Shorten/ });
  });

  test('of 15 kB because of its title, not its size', async () => {
    await assertFieldRejected(
      'hpc_one',
      JSON.stringify({ ...valid.hpc_one, title: 'x'.repeat(15_000) }),
      'title',
      /256 characters/,
    );
  });

  test('with many invalid fields, and names all of them', async () => {
    const payload = { node_number: 0, core_number: 'many', runtime: -1, title: 7, tool: 'BASH', colour: 'blue' };
    const problem = assertProblem(await submit('hpc_one', JSON.stringify(payload)), {
      status: 400,
      code: 'invalid_payload',
    });
    assert.deepEqual(problem.errors?.map((error) => error.field).sort(), [
      'colour',
      'command',
      'core_number',
      'node_number',
      'runtime',
      'title',
      'tool',
    ]);
  });

  test('with a thousand unknown fields, with a short response', async () => {
    const fields = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`f${i}`, '']));
    const response = await submit('hpc_one', JSON.stringify({ ...valid.hpc_one, ...fields }));
    assertProblem(response, { status: 400, code: 'invalid_payload', message: /not a known field/ });
    assert.ok(response.text.length < 64_000, `the response has ${response.text.length} characters`);
  });
});

describe('unknown fields', () => {
  test('a field without a name is rejected', async () => {
    const problem = assertProblem(await submit('hpc_one', '{"command": "true", "": "x"}'), {
      status: 400,
      code: 'invalid_payload',
    });
    assert.deepEqual(
      problem.errors?.map((error) => error.field),
      [''],
    );
  });

  test('a field with a name of 10 kB is rejected, and its name is shortened', async () => {
    const problem = assertProblem(
      await submit('hpc_one', JSON.stringify({ ...valid.hpc_one, ['f'.repeat(10_000)]: 1 })),
      {
        status: 400,
        code: 'invalid_payload',
      },
    );
    assert.deepEqual(
      problem.errors?.map((error) => error.field),
      ['f'.repeat(64)],
    );
  });

  test('command and tool together are rejected on both systems', async () => {
    const payload = JSON.stringify({ ...valid.hpc_one, ...valid.hpc_two });
    await assertFieldRejected('hpc_one', payload, 'tool', /is not supported by hpc_one/);
    await assertFieldRejected('hpc_two', payload, 'command', /is not supported by hpc_two/);
  });

  test('a tool instead of a command is rejected, and the command is reported as missing', async () => {
    const problem = assertProblem(await submit('hpc_one', JSON.stringify(valid.hpc_two)), {
      status: 400,
      code: 'invalid_payload',
    });
    assert.deepEqual(problem.errors?.map((error) => error.field).sort(), ['command', 'tool']);
  });
});

/** One value for each rule. The tables of values are in test/domain/jobs/invalid-payload.test.ts. */
describe('the rules of a Payload', () => {
  const wholeRules: [string, string, RegExp][] = [
    ['that is not JSON', '{"command": "echo hello"', /not JSON.*JSON object/],
    ['that is not an object', '[{"command": "echo hello"}]', /must be a JSON object/],
  ];
  for (const [name, payload, message] of wholeRules) {
    test(`rejects a Payload ${name}`, async () => {
      for (const hpc of ['hpc_one', 'hpc_two'] as const) {
        assertProblem(await submit(hpc, payload), { status: 400, code: 'invalid_payload', message });
      }
    });
  }

  const fieldRules: [string, Hpc, Record<string, unknown>, string, RegExp][] = [
    ['an unknown field', 'hpc_one', { ...valid.hpc_one, colour: 'blue' }, 'colour', /not a known field.*command/],
    ['an unknown field', 'hpc_two', { ...valid.hpc_two, colour: 'blue' }, 'colour', /not a known field.*tool/],
    ['a field of an object prototype', 'hpc_one', { ...valid.hpc_one, constructor: 'x' }, 'constructor', /not a known/],
    ['a command on a tool system', 'hpc_two', { ...valid.hpc_two, command: 'true' }, 'command', /use tool/],
    ['a tool on a batch system', 'hpc_one', { ...valid.hpc_one, tool: 'BASH' }, 'tool', /use command/],
    ['a missing command', 'hpc_one', {}, 'command', /required/],
    ['an empty command', 'hpc_one', { command: ' ' }, 'command', /empty/],
    ['a command that is not text', 'hpc_one', { command: ['echo'] }, 'command', /must be a string/],
    ['a command with control characters', 'hpc_one', { command: 'echo a\necho b' }, 'command', /control characters/],
    ['a command of 8193 characters', 'hpc_one', { command: 'x'.repeat(8193) }, 'command', /8192 characters/],
    ['a missing tool', 'hpc_two', {}, 'tool', /required/],
    ['an unknown tool', 'hpc_two', { tool: 'FORTRAN' }, 'tool', /BASH, PYTHON3, NODE/],
    ['a tool of 65 characters', 'hpc_two', { tool: 'X'.repeat(65) }, 'tool', /64 characters/],
    ['no nodes', 'hpc_one', { ...valid.hpc_one, node_number: '0' }, 'node_number', /at least 1/],
    ['a fraction of a node', 'hpc_two', { ...valid.hpc_two, node_number: '1.5' }, 'node_number', /whole number/],
    ['more nodes than the limit', 'hpc_one', { ...valid.hpc_one, node_number: '65' }, 'node_number', /at most 64/],
    ['no cores', 'hpc_two', { ...valid.hpc_two, core_number: 0 }, 'core_number', /at least 1/],
    ['cores that are not a number', 'hpc_one', { ...valid.hpc_one, core_number: 'one' }, 'core_number', /whole number/],
    ['more cores than the limit', 'hpc_two', { ...valid.hpc_two, core_number: 129 }, 'core_number', /at most 128/],
    ['no runtime', 'hpc_one', { ...valid.hpc_one, runtime: '0' }, 'runtime', /greater than 0/],
    [
      'a runtime that is not a number',
      'hpc_two',
      { ...valid.hpc_two, runtime: '1e999' },
      'runtime',
      /must be a number/,
    ],
    ['a runtime above the limit', 'hpc_one', { ...valid.hpc_one, runtime: '48.1' }, 'runtime', /48 hours on hpc_one/],
    ['a title that is not text', 'hpc_two', { ...valid.hpc_two, title: 7 }, 'title', /must be a string/],
    [
      'a title with control characters',
      'hpc_one',
      { ...valid.hpc_one, title: 'a\u2028b' },
      'title',
      /control characters/,
    ],
    [
      'a title of 257 characters',
      'hpc_two',
      { ...valid.hpc_two, title: '\u00e9'.repeat(257) },
      'title',
      /256 characters/,
    ],
    ['a forbidden sbatch option', 'hpc_one', { command: 'sbatch --uid=0 run.sh' }, 'command', /--uid is not allowed/],
    [
      'an sbatch option that is not carried out',
      'hpc_one',
      { command: 'sbatch --mem=50 run.sh' },
      'command',
      /--mem is not/,
    ],
    [
      'an sbatch option against the Payload',
      'hpc_one',
      { command: 'sbatch -N 9 run.sh' },
      'command',
      /use node_number/,
    ],
    ['an unclosed quote', 'hpc_one', { command: 'sbatch "run.sh' }, 'command', /quote/],
    ['sbatch without a script', 'hpc_one', { command: 'sbatch --nodes=1' }, 'command', /script/],
    ['an sbatch option without its value', 'hpc_one', { command: 'sbatch --nodes' }, 'command', /needs a value/],
    ['a script and --wrap', 'hpc_one', { command: 'sbatch --wrap="true" run.sh' }, 'command', /not both/],
    ['an empty --wrap', 'hpc_one', { command: 'sbatch --wrap=""' }, 'command', /wrap|empty/],
  ];
  for (const [name, hpc, payload, field, message] of fieldRules) {
    test(`rejects ${name} on ${hpc}`, () => assertFieldRejected(hpc, JSON.stringify(payload), field, message));
  }
});

test('a title with half of a surrogate pair is rejected, because it cannot be stored unchanged', async () => {
  for (const title of ['\ud800', 'a\udc00b']) {
    const response = await submit('hpc_one', JSON.stringify({ command: 'true', title }));
    assertProblem(response, { status: 400, code: 'invalid_payload', message: /title: must be valid Unicode/ });
  }
});

describe('an accepted Payload', () => {
  test('a runtime above the limit is reduced to it on a system that is configured so', async () => {
    for (const runtime of ['48.1', '2.0', 0.51, '1e300']) {
      const response = await submit('hpc_two', JSON.stringify({ ...valid.hpc_two, runtime }));
      assert.equal(response.status, 201, response.text);
      assert.equal((response.body as Job).runtime, 0.5);
    }
    await state.update();
  });

  test('a title is returned unchanged, with quotes and markup', async () => {
    const titles = ['x'.repeat(256), 'na\u00efve \u30b8\u30e7\u30d6 \ud83d\ude80', '"<script>\\\'; drop table jobs --'];
    for (const title of titles) {
      const response = await submit('hpc_one', JSON.stringify({ command: 'true', title }));
      assert.equal(response.status, 201, response.text);
      assert.equal((response.body as Job).title, title);
    }
    const { body } = await sendRawRequest(server.url, {
      path: '/jobs/hpc_one/',
      headers: [bearerHeader(server.userToken)],
    });
    assert.deepEqual(
      (body as Job[]).map((job) => job.title),
      titles,
    );
    await state.update();
  });
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken]);
});
