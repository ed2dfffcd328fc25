import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BursarError } from '../../../src/domain/errors.ts';
import { parsePayload } from '../../../src/domain/jobs/payload.ts';
import type { HpcSystem, ToolParameter } from '../../../src/domain/systems/system.ts';
import { assertGivesAdvice } from '../../support/advice.ts';
import { batchSystem, plainTool, toolSystem } from '../example-systems.ts';

// The tables of values that `parsePayload` rejects. test/http/bad-input sends one value for each rule through HTTP.

type Hpc = 'hpc_one' | 'hpc_two';

const parameters: Record<string, ToolParameter> = {
  steps: { type: 'integer', required: true, min: 1, max: 100 },
  ratio: { type: 'number', required: false, min: 0, max: 1 },
  mode: { type: 'string', required: false, values: ['fast', 'slow'], default: 'fast' },
  label: { type: 'string', required: false, pattern: '[a-z]+|[0-9]+' },
};
const systems: Record<Hpc, HpcSystem> = {
  hpc_one: batchSystem,
  hpc_two: toolSystem({
    BASH: plainTool,
    PYTHON3: plainTool,
    NODE: plainTool,
    SOLVER: { command: ['true'], parameters },
  }),
};
/** The smallest valid Payload of each system. */
const runs = { hpc_one: { command: 'echo hello' }, hpc_two: { tool: 'BASH' } };

function rejectionOf(hpc: Hpc, payload: string): BursarError {
  try {
    parsePayload(payload, systems[hpc]);
  } catch (error) {
    assert.ok(error instanceof BursarError, String(error));
    assert.equal(error.code, 'invalid_payload');
    assertGivesAdvice(error.message);
    return error;
  }
  assert.fail(`accepted: ${payload}`);
}

/** The error names this field and no other one. */
function assertFieldRejected(hpc: Hpc, payload: string, field: string, says: RegExp): void {
  const { fields, message } = rejectionOf(hpc, payload);
  assert.deepEqual([...new Set(fields.map((error) => error.field))], [field]);
  assert.ok(
    fields.some((error) => says.test(error.message)),
    message,
  );
  assert.ok(message.includes(`${field}: `), message);
}

describe('a Payload that is not JSON', () => {
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
    test(`rejects a Payload ${name}`, () => {
      for (const hpc of ['hpc_one', 'hpc_two'] as const)
        assert.match(rejectionOf(hpc, payload).message, /not JSON.*JSON object/);
    });
  }
});

describe('a Payload that is not a JSON object', () => {
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
    test(`rejects ${name}`, () => {
      for (const hpc of ['hpc_one', 'hpc_two'] as const)
        assert.match(rejectionOf(hpc, payload).message, /must be a JSON object/);
    });
  }
});

describe('unknown fields', () => {
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
    [
      'a command on a tool system',
      'hpc_two',
      { ...runs.hpc_two, command: 'true' },
      'command',
      /not supported by hpc_two; use tool/,
    ],
    [
      'a tool on a batch system',
      'hpc_one',
      { ...runs.hpc_one, tool: 'BASH' },
      'tool',
      /not supported by hpc_one; use command/,
    ],
  ];
  for (const [name, hpc, payload, field, says] of cases) {
    test(`rejects ${name}`, () => {
      assertFieldRejected(hpc, typeof payload === 'string' ? payload : JSON.stringify(payload), field, says);
    });
  }
});

describe('command and tool', () => {
  const cases: [string, Hpc, unknown, RegExp][] = [
    ['no command', 'hpc_one', undefined, /required/],
    ['an empty command', 'hpc_one', '', /empty/],
    ['a command of spaces', 'hpc_one', '   ', /empty/],
    ['a command that is null', 'hpc_one', null, /must be a string/],
    ['a command that is a number', 'hpc_one', 7, /must be a string/],
    ['a command that is a boolean', 'hpc_one', true, /must be a string/],
    ['a command that is an array', 'hpc_one', ['echo', 'hello'], /must be a string/],
    ['a command that is an object', 'hpc_one', { run: 'echo' }, /must be a string/],
    ['a command with a line feed', 'hpc_one', 'echo a\necho b', /control characters/],
    ['a command with a NUL', 'hpc_one', 'echo a\0b', /control characters/],
    ['a command with an escape sequence', 'hpc_one', 'echo \u001b[2J', /control characters/],
    ['a command of 8193 characters', 'hpc_one', `echo ${'x'.repeat(8188)}`, /8192 characters/],
    ['no tool', 'hpc_two', undefined, /required/],
    ['an empty tool', 'hpc_two', '', /empty/],
    ['a tool that is null', 'hpc_two', null, /must be a string/],
    ['a tool that is a number', 'hpc_two', 7, /must be a string/],
    ['a tool that is an array', 'hpc_two', ['BASH'], /must be a string/],
    ['a tool that is an object', 'hpc_two', { name: 'BASH' }, /must be a string/],
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
    test(`rejects ${name}`, () => {
      const field = hpc === 'hpc_one' ? 'command' : 'tool';
      assertFieldRejected(hpc, JSON.stringify({ title: 'x', [field]: value }), field, says);
    });
  }
});

describe('node_number, core_number and runtime', () => {
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
      test(`${field} rejects ${name}`, () => {
        for (const hpc of ['hpc_one', 'hpc_two'] as const) {
          const others = JSON.stringify(runs[hpc]).slice(1);
          assertFieldRejected(hpc, `{"${field}": ${json}, ${others}`, field, says);
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
    test(`rejects ${name}, which is over the limit`, () => {
      assertFieldRejected(hpc, JSON.stringify({ ...runs[hpc], ...values }), field, says);
    });
  }
});

describe('title', () => {
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
    test(`rejects a title with ${name}`, () => {
      for (const hpc of ['hpc_one', 'hpc_two'] as const) {
        assertFieldRejected(hpc, `{"title": ${json}, ${JSON.stringify(runs[hpc]).slice(1)}`, 'title', says);
      }
    });
  }
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
    test(`rejects the option ${option} by name`, () => {
      const written = /^--?[^= ]*/.exec(option)?.[0] ?? '';
      const named = written.startsWith('--') ? written : written.slice(0, 2);
      const { fields, message } = rejectionOf('hpc_one', JSON.stringify({ command: `sbatch ${option} run.sh` }));
      assert.match(message, /not allowed; allowed are nodes/);
      assert.ok(message.includes(`option ${named} is`), message);
      assert.deepEqual(
        fields.map((error) => error.field),
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
    test(`rejects ${name}`, () => {
      assertFieldRejected('hpc_one', JSON.stringify({ command }), 'command', says);
    });
  }
});

describe('tool parameters', () => {
  const wrong: [string, string, unknown, RegExp][] = [
    ['a required one that is missing', 'steps', undefined, /required/],
    ['a number under its bound', 'steps', 0, /at least 1/],
    ['a number over its bound', 'steps', '101', /at most 100/],
    ['a number that is not whole', 'steps', 1.5, /whole number/],
    ['a number that is text', 'steps', 'many', /whole number/],
    ['a number that is empty', 'steps', '', /whole number/],
    ['a number that is null', 'steps', null, /whole number/],
    ['a number that is a list', 'steps', [1], /whole number/],
    ['a number with a command behind it', 'steps', '1; id', /whole number/],
    ['a fraction over its bound', 'ratio', '1.01', /at most 1/],
    ['a fraction beyond all numbers', 'ratio', '1e999', /number/],
    ['a word that is not on the list', 'mode', 'medium', /one of fast, slow/],
    ['a word that is on the list in another case', 'mode', 'FAST', /one of fast, slow/],
    ['a word that is empty', 'mode', '', /one of fast, slow/],
    ['a text that matches its pattern in part', 'label', 'abc1', /must match/],
    ['a text with a command in it', 'label', 'a$(id)', /must match/],
    ['a text with a NUL', 'label', 'a\0', /control characters/],
    ['a text with a line feed behind it', 'label', 'abc\n', /control characters/],
    ['a text that is an object', 'label', { a: 1 }, /must be a string/],
    ['a text of 2 kB', 'label', 'x'.repeat(2000), /1024 characters/],
    ['a parameter that the tool does not have', 'colour', 'blue', /use one of .*steps, ratio, mode, label/],
    ['the name of the language', 'constructor', 'x', /not a known field/],
  ];
  for (const [name, field, value, says] of wrong) {
    test(`rejects ${name}`, () => {
      assertFieldRejected('hpc_two', JSON.stringify({ tool: 'SOLVER', steps: 1, [field]: value }), field, says);
    });
  }
});
