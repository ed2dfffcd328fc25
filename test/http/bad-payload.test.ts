import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Job } from '../support/api.ts';
import { assertCleanLog } from '../support/logs.ts';
import { assertAllGaveAdvice, assertProblem, type TraceWatch, watchTraces } from '../support/refusals.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { ask, bearer, type HeaderLine } from '../support/wire.ts';

let server: TestServer;
let traces: TraceWatch;
before(async () => {
  server = await startServer();
  traces = await watchTraces(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => traces.assertUnchanged());

type Hpc = 'hpc_one' | 'hpc_two';
const runs = { hpc_one: { command: 'echo hello' }, hpc_two: { tool: 'BASH' } };

/** A submission in which nothing but the Payload can be wrong. */
function submit(hpc: Hpc, ...payloads: string[]) {
  const headers: HeaderLine[] = [
    bearer(server.userToken),
    ['content-disposition', 'attachment; filename=job.zip'],
    ...payloads.map((payload): HeaderLine => ['payload', payload]),
  ];
  return ask(server.url, { method: 'POST', path: `/jobs/${hpc}/`, headers });
}

/** The refusal of a Payload that names this field, and no other, as the one at fault. */
async function assertFieldRefused(hpc: Hpc, payload: string, field: string, says: RegExp) {
  const problem = assertProblem(await submit(hpc, payload), { status: 400, code: 'invalid_payload', says });
  assert.deepEqual([...new Set(problem.errors?.map((error) => error.field))], [field]);
  assert.ok(problem.errors?.some((error) => says.test(error.message)));
  assert.match(problem.detail, new RegExp(`\\b${field}: `));
}

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
    ['an unknown field', 'hpc_one', { ...runs.hpc_one, colour: 'blue' }, 'colour', /known are .*command/],
    [
      'an unknown field on the other system',
      'hpc_two',
      { ...runs.hpc_two, colour: 'blue' },
      'colour',
      /known are .*tool/,
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
    await assertFieldRefused('hpc_one', payload, 'tool', /does not apply to hpc_one/);
    await assertFieldRefused('hpc_two', payload, 'command', /does not apply to hpc_two/);
  });

  test('a tool in place of the command is refused, and the command asked for', async () => {
    const problem = assertProblem(await submit('hpc_one', JSON.stringify(runs.hpc_two)), {
      status: 400,
      code: 'invalid_payload',
    });
    assert.deepEqual(problem.errors?.map((error) => error.field).sort(), ['command', 'tool']);
  });
});

describe('what is to run', () => {
  const cases: [string, Hpc, unknown, RegExp][] = [
    ['no command', 'hpc_one', undefined, /required/],
    ['an empty command', 'hpc_one', '', /empty/],
    ['a command of spaces', 'hpc_one', '   ', /empty/],
    ['a command that is null', 'hpc_one', null, /text/],
    ['a command that is a number', 'hpc_one', 7, /text/],
    ['a command that is a boolean', 'hpc_one', true, /text/],
    ['a command that is an array', 'hpc_one', ['echo', 'hello'], /text/],
    ['a command that is an object', 'hpc_one', { run: 'echo' }, /text/],
    ['a command with a line feed', 'hpc_one', 'echo a\necho b', /control characters/],
    ['a command with a NUL', 'hpc_one', 'echo a\0b', /control characters/],
    ['a command with an escape sequence', 'hpc_one', 'echo \u001b[2J', /control characters/],
    ['a command of 8193 characters', 'hpc_one', `echo ${'x'.repeat(8188)}`, /8192 characters/],
    ['no tool', 'hpc_two', undefined, /required/],
    ['an empty tool', 'hpc_two', '', /empty/],
    ['a tool that is null', 'hpc_two', null, /text/],
    ['a tool that is a number', 'hpc_two', 7, /text/],
    ['a tool that is an array', 'hpc_two', ['BASH'], /text/],
    ['a tool that is an object', 'hpc_two', { name: 'BASH' }, /text/],
    ['an unknown tool', 'hpc_two', 'FORTRAN', /BASH, PYTHON3, NODE/],
    ['a tool in lower case', 'hpc_two', 'bash', /BASH, PYTHON3, NODE/],
    ['a tool with a space', 'hpc_two', 'BASH ', /BASH, PYTHON3, NODE/],
    ['a tool that is a path', 'hpc_two', '/bin/bash', /BASH, PYTHON3, NODE/],
    ['a tool that is a name of the language', 'hpc_two', '__proto__', /BASH, PYTHON3, NODE/],
    ['a tool that is another name of the language', 'hpc_two', 'constructor', /BASH, PYTHON3, NODE/],
    ['a tool with a name of 65 characters', 'hpc_two', 'X'.repeat(65), /64 characters/],
    ['a tool with a line feed', 'hpc_two', 'BASH\n', /control characters/],
  ];
  for (const [name, hpc, value, says] of cases) {
    test(`${name} is refused`, async () => {
      const field = hpc === 'hpc_one' ? 'command' : 'tool';
      await assertFieldRefused(hpc, JSON.stringify({ title: 'x', [field]: value }), field, says);
    });
  }
});

describe('numbers', () => {
  const wrong: [string, string, RegExp][] = [
    ['zero', '0', /at least 1|more than 0/],
    ['zero as text', '"0"', /at least 1|more than 0/],
    ['minus zero', '"-0"', /at least 1|more than 0/],
    ['minus one', '-1', /at least 1|more than 0/],
    ['minus one as text', '"-1"', /at least 1|more than 0/],
    ['a number beyond all numbers', '1e999', /must be/],
    ['a number beyond all numbers as text', '"1e999"', /must be/],
    ['NaN', '"NaN"', /must be/],
    ['Infinity', '"Infinity"', /must be/],
    ['minus Infinity', '"-Infinity"', /must be/],
    ['the empty text', '""', /must be/],
    ['spaces', '"  "', /must be/],
    ['a number in spaces', '" 1 "', /must be/],
    ['a number in hexadecimal', '"0x1"', /must be/],
    ['a number in binary', '"0b1"', /must be/],
    ['a number with a comma', '"1,5"', /must be/],
    ['a number with groups', '"1_000"', /must be/],
    ['a number with its unit', '"1h"', /must be/],
    ['two numbers', '"1 2"', /must be/],
    ['a sum', '"1+1"', /must be/],
    ['a sign alone', '"-"', /must be/],
    ['two signs', '"+-1"', /must be/],
    ['a point alone', '"."', /must be/],
    ['a word', '"one"', /must be/],
    ['a number with a NUL', '"1\\u0000"', /must be/],
    ['a number with a line feed', '"1\\n"', /must be/],
    ['fullwidth digits', '"\uff11"', /must be/],
    ['digits of another script', '"\u0661"', /must be/],
    ['true', 'true', /must be/],
    ['false', 'false', /must be/],
    ['true as text', '"true"', /must be/],
    ['null', 'null', /must be/],
    ['null as text', '"null"', /must be/],
    ['an array', '[]', /must be/],
    ['an array of a number', '[1]', /must be/],
    ['an array of text', '["1"]', /must be/],
    ['an object', '{}', /must be/],
    ['an object with a value', '{"valueOf": 1}', /must be/],
  ];
  const notWhole: [string, string, RegExp][] = [
    ['a fraction', '1.5', /whole number/],
    ['a fraction as text', '"1.5"', /whole number/],
    ['a fraction of nothing as text', '"1.0"', /whole number/],
    ['a number with an exponent as text', '"1e1"', /whole number/],
    ['a number of sixteen digits', '1000000000000000', /at most/],
    ['a number of sixteen digits as text', '"1000000000000000"', /whole number|at most/],
    ['a number of twenty digits', '10000000000000000000', /whole number|at most/],
    ['a huge number', '1e300', /whole number|at most/],
  ];

  for (const field of ['node_number', 'core_number', 'runtime']) {
    for (const [name, json, says] of field === 'runtime' ? wrong : [...wrong, ...notWhole]) {
      test(`${field}: ${name} is refused`, async () => {
        for (const hpc of ['hpc_one', 'hpc_two'] as const) {
          const others = JSON.stringify(runs[hpc]).slice(1);
          await assertFieldRefused(hpc, `{"${field}": ${json}, ${others}`, field, says);
        }
      });
    }
  }

  const overLimits: [string, Hpc, Record<string, unknown>, string, RegExp][] = [
    ['65 nodes', 'hpc_one', { node_number: '65' }, 'node_number', /at most 64/],
    ['65 nodes on the other system', 'hpc_two', { node_number: 65 }, 'node_number', /at most 64/],
    ['129 cores', 'hpc_one', { core_number: '129' }, 'core_number', /at most 128/],
    ['129 cores on the other system', 'hpc_two', { core_number: 129 }, 'core_number', /at most 128/],
    ['48.1 hours', 'hpc_one', { runtime: '48.1' }, 'runtime', /at most 48 hours on hpc_one/],
    ['48.0001 hours', 'hpc_one', { runtime: 48.0001 }, 'runtime', /at most 48 hours on hpc_one/],
    ['a huge number of hours', 'hpc_one', { runtime: '1e300' }, 'runtime', /at most 48 hours on hpc_one/],
    ['the largest number of hours', 'hpc_one', { runtime: Number.MAX_VALUE }, 'runtime', /at most 48 hours/],
  ];
  for (const [name, hpc, values, field, says] of overLimits) {
    test(`${name} is over the limit`, async () => {
      await assertFieldRefused(hpc, JSON.stringify({ ...runs[hpc], ...values }), field, says);
    });
  }

  test('a runtime over the limit of a system that clamps is cut down', async () => {
    for (const runtime of ['48.1', '2.0', 0.51, '1e300']) {
      const answer = await submit('hpc_two', JSON.stringify({ ...runs.hpc_two, runtime }));
      assert.equal(answer.status, 201, answer.text);
      assert.equal((answer.body as Job).runtime, 0.5);
    }
    await traces.accept();
  });
});

describe('titles', () => {
  const cases: [string, string, RegExp][] = [
    ['a line feed', '"a\\nb"', /control characters/],
    ['a carriage return', '"a\\rb"', /control characters/],
    ['a tab', '"a\\tb"', /control characters/],
    ['a NUL', '"a\\u0000b"', /control characters/],
    ['an escape sequence', '"\\u001b[31mred"', /control characters/],
    ['a DEL', '"a\\u007f"', /control characters/],
    ['a C1 control character', '"a\\u009b"', /control characters/],
    ['a line separator', '"a\\u2028b"', /control characters/],
    ['a paragraph separator', '"a\\u2029b"', /control characters/],
    ['257 characters', `"${'x'.repeat(257)}"`, /at most 256 characters/],
    ['257 characters of two bytes', `"${'\u00e9'.repeat(257)}"`, /at most 256 characters/],
    ['a number', '7', /must be text/],
    ['null', 'null', /must be text/],
    ['a boolean', 'true', /must be text/],
    ['an array', '["x"]', /must be text/],
    ['an object', '{"title": "x"}', /must be text/],
  ];
  for (const [name, json, says] of cases) {
    test(`a title of ${name} is refused`, async () => {
      for (const hpc of ['hpc_one', 'hpc_two'] as const) {
        await assertFieldRefused(hpc, `{"title": ${json}, ${JSON.stringify(runs[hpc]).slice(1)}`, 'title', says);
      }
    });
  }

  test('a title is kept as it was written, quotes and markup and all', async () => {
    const titles = [
      'x'.repeat(256),
      'na\u00efve \u30b8\u30e7\u30d6 \ud83d\ude80',
      '"<script>\\\'; drop table jobs --',
      '\ud800',
    ];
    for (const title of titles) {
      const answer = await submit('hpc_one', JSON.stringify({ command: 'true', title }));
      assert.equal(answer.status, 201, answer.text);
      assert.equal((answer.body as Job).title, title);
    }
    const { body } = await ask(server.url, { path: '/jobs/hpc_one/', headers: [bearer(server.userToken)] });
    assert.deepEqual(
      (body as Job[]).map((job) => job.title),
      titles,
    );
    await traces.accept();
  });
});

describe('sbatch', () => {
  const options = [
    '--uid=0',
    '--uid 0',
    '--gid=0',
    '--chdir=/',
    '-D /',
    '-D/',
    '--array=1-1000',
    '-a 1-1000',
    '--account=root',
    '-A root',
    '--dependency=afterok:1',
    '-d afterok:1',
    '--mail-user=a@b',
    '--output=/etc/passwd',
    '-o /etc/passwd',
    '--error=/etc/passwd',
    '-e /etc/passwd',
    '--input=/etc/shadow',
    '-i /etc/shadow',
    '--export=ALL',
    '--export-file=/etc/shadow',
    '--get-user-env',
    '--partition=debug',
    '-p debug',
    '--qos=high',
    '-q high',
    '--priority=TOP',
    '--nice=-100',
    '--reservation=x',
    '--prolog=/tmp/x',
    '--bcast=/tmp/x',
    '--licenses=x',
    '-L x',
    '--nodelist=node1',
    '-w node1',
    '--begin=now',
    '--hold',
    '-H',
    '--requeue',
    '--test-only',
    '--wait',
    '-W',
    '--version',
    '-V',
    '--help',
    '-h',
    '--propagate',
    '--clusters=x',
    '-M x',
    '--open-mode=append',
    '--ui=0',
    '--u=0',
    '--chd=/',
    '--node=2',
    '--wra=true',
    '--tim=1',
    '--UID=0',
    '--Nodes=1',
    '--=x',
    '--',
    '-x node1',
    '-Q',
    '-\u00e9',
    '--__proto__=x',
    '--constructor=x',
  ];
  for (const option of options) {
    test(`the option ${option} is refused by name`, async () => {
      const written = /^--?[^= ]*/.exec(option)?.[0] ?? '';
      const named = written.startsWith('--') ? written : written.slice(0, 2);
      const payload = JSON.stringify({ command: `sbatch ${option} run.sh` });
      const problem = assertProblem(await submit('hpc_one', payload), {
        status: 400,
        code: 'invalid_payload',
        says: /not allowed here; allowed are nodes/,
      });
      assert.ok(problem.detail.includes(`option ${named} is`), problem.detail);
      assert.deepEqual(
        problem.errors?.map((error) => error.field),
        ['command'],
      );
    });
  }

  const cases: [string, string, RegExp][] = [
    ['an option that is quoted', 'sbatch "--uid=0" run.sh', /--uid/],
    ['an option with a quote inside', "sbatch --u'id'=0 run.sh", /--uid/],
    ['an option with a backslash', 'sbatch --u\\id=0 run.sh', /--uid/],
    ['a refused option after allowed ones', 'sbatch -N 1 --time=1:00 --uid=0 run.sh', /--uid/],
    ['an open double quote', 'sbatch "run.sh', /quote/],
    ['an open single quote', "sbatch run.sh 'a", /quote/],
    ['no script', 'sbatch', /script/],
    ['options and no script', 'sbatch --nodes=1', /script/],
    ['an option that lacks its value', 'sbatch --nodes', /needs a value/],
    ['a short option that lacks its value', 'sbatch -N', /needs a value/],
    ['a script and a wrapped line', 'sbatch --wrap="echo hello" run.sh', /not both/],
    ['an empty script', 'sbatch ""', /script/],
    ['an empty wrapped line', 'sbatch --wrap=""', /wrap|empty/],
  ];
  for (const [name, command, says] of cases) {
    test(`${name} is refused`, async () => {
      await assertFieldRefused('hpc_one', JSON.stringify({ command }), 'command', says);
    });
  }
});

test('every one of these refusals says what to do', () => assertAllGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken]);
});
