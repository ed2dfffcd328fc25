import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Hpc } from '../../support/jobs.ts';
import { assertCleanLog } from '../../support/logs.ts';
import { assertAllGaveAdvice, assertProblem, type TraceWatch, watchTraces } from '../../support/refusals.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { payloadSender, runs } from './send-payload.ts';

// A Payload that is refused as a whole, or for a field that it should not have.

let server: TestServer;
let traces: TraceWatch;
before(async () => {
  server = await startServer();
  traces = await watchTraces(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => traces.assertUnchanged());

const { submit, assertFieldRefused } = payloadSender(() => server);

describe('a Payload as a whole', () => {
  test('that is missing', async () => {
    assertProblem(await submit('hpc_one'), { status: 400, code: 'invalid_payload', says: /missing.*Send it/ });
  });

  test('that was sent twice', async () => {
    const payload = JSON.stringify(runs.hpc_one);
    const answer = await submit('hpc_one', payload, payload);
    assertProblem(answer, { status: 400, code: 'invalid_payload', says: /2 times/ });
  });

  test('that was sent twenty times', async () => {
    const answer = await submit('hpc_one', ...Array<string>(20).fill(JSON.stringify(runs.hpc_one)));
    assertProblem(answer, { status: 400, code: 'invalid_payload', says: /20 times/ });
  });

  const notJson: [string, string][] = [
    ['empty', ''],
    ['of spaces', '   '],
    ['a word', 'hello'],
    ['a form', 'command=echo&runtime=1'],
    ['cut off', '{"command": "echo hello"'],
    ['in single quotes', "{'command': 'echo hello'}"],
    ['with a comma at its end', '{"command": "echo hello",}'],
    ['with a comment', '{"command": "echo hello" /* hello */}'],
    ['with NaN', '{"command": "echo hello", "runtime": NaN}'],
    ['with Infinity', '{"command": "echo hello", "runtime": Infinity}'],
    ['with undefined', '{"command": undefined}'],
    ['with a number in hexadecimal', '{"command": "echo hello", "node_number": 0x10}'],
    ['of two objects', '{"command": "echo hello"}{"command": "echo hello"}'],
    ['of two objects in a list', '{"command": "echo hello"}, {"command": "echo hello"}'],
    ['with a tab in a string', '{"command": "echo\thello"}'],
    ['nested ten thousand deep', `${'['.repeat(10_000)}`],
    ['encoded by percents', encodeURIComponent(JSON.stringify(runs.hpc_one))],
    ['encoded in base64', Buffer.from(JSON.stringify(runs.hpc_one)).toString('base64')],
  ];
  for (const [name, payload] of notJson) {
    test(`that is ${name}`, async () => {
      for (const hpc of ['hpc_one', 'hpc_two'] as const) {
        const answer = await submit(hpc, payload);
        assertProblem(answer, { status: 400, code: 'invalid_payload', says: /not JSON.*JSON object/ });
      }
    });
  }

  const noObject: [string, string][] = [
    ['an array', '[]'],
    ['an array of objects', '[{"command": "echo hello"}]'],
    ['a string', '"echo hello"'],
    ['a string that is JSON', JSON.stringify(JSON.stringify(runs.hpc_one))],
    ['null', 'null'],
    ['true', 'true'],
    ['a number', '1'],
    ['a large number', '1e999'],
    ['an array five thousand deep', `${'['.repeat(5_000)}${']'.repeat(5_000)}`],
  ];
  for (const [name, payload] of noObject) {
    test(`that is ${name}`, async () => {
      for (const hpc of ['hpc_one', 'hpc_two'] as const) {
        const answer = await submit(hpc, payload);
        assertProblem(answer, { status: 400, code: 'invalid_payload', says: /must be a JSON object/ });
      }
    });
  }

  test('of 70 kB', async () => {
    const answer = await submit('hpc_one', JSON.stringify({ ...runs.hpc_one, title: 'x'.repeat(70_000) }));
    assertProblem(answer, { status: 431, code: 'headers_too_large', says: /16 KiB.*Shorten/ });
  });

  test('of 1 MB', async () => {
    const answer = await submit('hpc_one', JSON.stringify({ ...runs.hpc_one, title: 'x'.repeat(1_000_000) }));
    assertProblem(answer, { status: 431, code: 'headers_too_large', says: /16 KiB.*Shorten/ });
  });

  test('of 15 kB is read, and refused for what it says', async () => {
    await assertFieldRefused(
      'hpc_one',
      JSON.stringify({ ...runs.hpc_one, title: 'x'.repeat(15_000) }),
      'title',
      /256 characters/,
    );
  });

  test('with everything wrong names every field at once', async () => {
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

  test('with a thousand unknown fields is refused in few words', async () => {
    const fields = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`f${i}`, '']));
    const answer = await submit('hpc_one', JSON.stringify({ ...runs.hpc_one, ...fields }));
    assertProblem(answer, { status: 400, code: 'invalid_payload', says: /not a known field/ });
    assert.ok(answer.text.length < 64_000, `the refusal has ${answer.text.length} characters`);
  });
});

describe('a field that does not belong', () => {
  const cases: [string, Hpc, Record<string, unknown> | string, string, RegExp][] = [
    ['an unknown field', 'hpc_one', { ...runs.hpc_one, colour: 'blue' }, 'colour', /use one of .*command/],
    [
      'an unknown field on the other system',
      'hpc_two',
      { ...runs.hpc_two, colour: 'blue' },
      'colour',
      /use one of .*tool/,
    ],
    ['a field in another case', 'hpc_one', { ...runs.hpc_one, Title: 'x' }, 'Title', /not a known field/],
    ['a field of the answer', 'hpc_one', { ...runs.hpc_one, owner: '1' }, 'owner', /not a known field/],
    ['__proto__', 'hpc_one', '{"command": "true", "__proto__": {"title": "x"}}', '__proto__', /not a known field/],
    ['__proto__ with a tool', 'hpc_two', '{"tool": "BASH", "__proto__": {"admin": true}}', '__proto__', /not a known/],
    ['constructor', 'hpc_one', '{"command": "true", "constructor": {"prototype": {}}}', 'constructor', /not a known/],
    ['toString', 'hpc_one', '{"command": "true", "toString": "x"}', 'toString', /not a known field/],
    ['hasOwnProperty', 'hpc_two', '{"tool": "BASH", "hasOwnProperty": "x"}', 'hasOwnProperty', /not a known field/],
    ['a command on a tool system', 'hpc_two', { ...runs.hpc_two, command: 'true' }, 'command', /hpc_two.*takes tool/],
    ['a tool on a batch system', 'hpc_one', { ...runs.hpc_one, tool: 'BASH' }, 'tool', /hpc_one.*takes command/],
  ];
  for (const [name, hpc, payload, field, says] of cases) {
    test(`${name} is refused by name`, async () => {
      await assertFieldRefused(hpc, typeof payload === 'string' ? payload : JSON.stringify(payload), field, says);
    });
  }

  test('a field without a name is refused', async () => {
    const problem = assertProblem(await submit('hpc_one', '{"command": "true", "": "x"}'), {
      status: 400,
      code: 'invalid_payload',
    });
    assert.deepEqual(
      problem.errors?.map((error) => error.field),
      [''],
    );
  });

  test('a field with a name of 10 kB is refused by the beginning of it', async () => {
    const problem = assertProblem(
      await submit('hpc_one', JSON.stringify({ ...runs.hpc_one, ['f'.repeat(10_000)]: 1 })),
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

  test('both a command and a tool are refused on either system', async () => {
    const payload = JSON.stringify({ ...runs.hpc_one, ...runs.hpc_two });
    await assertFieldRefused('hpc_one', payload, 'tool', /is not supported by hpc_one/);
    await assertFieldRefused('hpc_two', payload, 'command', /is not supported by hpc_two/);
  });

  test('a tool in place of the command is refused, and the command asked for', async () => {
    const problem = assertProblem(await submit('hpc_one', JSON.stringify(runs.hpc_two)), {
      status: 400,
      code: 'invalid_payload',
    });
    assert.deepEqual(problem.errors?.map((error) => error.field).sort(), ['command', 'tool']);
  });
});

test('every one of these refusals says what to do', () => assertAllGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});
