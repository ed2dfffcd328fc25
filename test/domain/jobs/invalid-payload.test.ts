import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertFieldRejected, type Hpc, rejectionOf, runs } from './rejected-payloads.ts';

// The tables of values that `parsePayload` rejects. test/http/bad-input sends one value for each rule through HTTP.

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

test('the time to reject a number is in proportion to its length', () => {
  // With a quadratic pattern this would take hours.
  const runtime = `${'1'.repeat(1_000_000)}x`;
  assertFieldRejected('hpc_one', JSON.stringify({ ...runs.hpc_one, runtime }), 'runtime', /must be a number/);
});
