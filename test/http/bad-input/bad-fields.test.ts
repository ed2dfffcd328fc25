import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Job } from '../../support/api.ts';
import type { Hpc } from '../../support/jobs.ts';
import { assertCleanLog } from '../../support/logs.ts';
import { assertAllGaveAdvice, assertProblem, type TraceWatch, watchTraces } from '../../support/refusals.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { ask, bearer } from '../../support/wire.ts';
import { payloadSender, runs } from './send-payload.ts';

// What the fields of a Payload may not hold.

let server: TestServer;
let traces: TraceWatch;
before(async () => {
  server = await startServer();
  traces = await watchTraces(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => traces.assertUnchanged());

const { submit, assertFieldRefused } = payloadSender(() => server);

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
    ['zero', '0', /at least 1|greater than 0/],
    ['zero as text', '"0"', /at least 1|greater than 0/],
    ['minus zero', '"-0"', /at least 1|greater than 0/],
    ['minus one', '-1', /at least 1|greater than 0/],
    ['minus one as text', '"-1"', /at least 1|greater than 0/],
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
    ['a number', '7', /must be a string/],
    ['null', 'null', /must be a string/],
    ['a boolean', 'true', /must be a string/],
    ['an array', '["x"]', /must be a string/],
    ['an object', '{"title": "x"}', /must be a string/],
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
        says: /not allowed; allowed are nodes/,
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
