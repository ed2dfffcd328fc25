import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { FieldError } from '../../../src/domain/errors.ts';
import { buildToolArgv, parseToolParameters } from '../../../src/domain/jobs/tool-command.ts';
import type { Tool, ToolParameter } from '../../../src/domain/systems/system.ts';

const toolWith = (parameters: Record<string, ToolParameter>, command = ['run']): Tool => ({ command, parameters });

/** The text of a parameter called `p`, or what is wrong with it. */
function read(parameter: ToolParameter, payload: Record<string, unknown>): string | FieldError[] {
  const errors: FieldError[] = [];
  const { p = '' } = parseToolParameters(payload, toolWith({ p: parameter }), errors);
  return errors.length > 0 ? errors : p;
}

function fault(parameter: ToolParameter, payload: Record<string, unknown>): string {
  const found = read(parameter, payload);
  assert.ok(typeof found !== 'string', `accepted as ${JSON.stringify(found)}`);
  assert.deepEqual(
    found.map((error) => error.field),
    ['p'],
  );
  return found[0]?.message ?? '';
}

const text: ToolParameter = { type: 'string', required: false };
const integer: ToolParameter = { type: 'integer', required: false };
const number: ToolParameter = { type: 'number', required: false };

describe('a parameter', () => {
  test('that is not given is empty, or its default', () => {
    for (const parameter of [text, integer, number]) assert.equal(read(parameter, {}), '');
    assert.equal(read({ ...text, default: 'x' }, {}), 'x');
    assert.equal(read({ ...text, default: 7 }, {}), '7');
    assert.equal(read({ ...integer, default: 7 }, {}), '7');
    assert.equal(read({ ...integer, default: '7' }, {}), '7');
    assert.equal(read({ ...number, default: 0.5 }, {}), '0.5');
    assert.equal(read({ ...integer, default: 0 }, {}), '0');
  });

  test('that is required must be given, unless it has a default', () => {
    for (const parameter of [text, integer, number]) {
      assert.match(fault({ ...parameter, required: true }, {}), /required/);
    }
    assert.match(fault({ ...text, required: true }, { p: '' }), /empty/);
    assert.equal(read({ ...text, required: true, default: 'x' }, {}), 'x');
  });

  test('that is not given stays so, whatever its name means elsewhere', () => {
    const errors: FieldError[] = [];
    const parameters = { constructor: integer, valueof: integer, hasown: text };
    assert.deepEqual(parseToolParameters({}, toolWith(parameters), errors), {
      constructor: '',
      valueof: '',
      hasown: '',
    });
    assert.deepEqual(errors, []);
  });

  test('of text is kept as it is', () => {
    assert.equal(read(text, { p: ' a $(id) "b" ' }), ' a $(id) "b" ');
    assert.equal(read(text, { p: '' }), '');
    assert.equal(read(text, { p: 'x'.repeat(1024) }), 'x'.repeat(1024));
    for (const p of ['x'.repeat(1025), 'a\nb', 'a\0b', 7, true, null, [], {}]) assert.match(fault(text, { p }), /must/);
  });

  test('of numbers is written in digits', () => {
    assert.equal(read(integer, { p: '+7' }), '7');
    assert.equal(read(integer, { p: '007' }), '7');
    assert.equal(read(integer, { p: -7 }), '-7');
    assert.equal(read(integer, { p: '-0' }), '0');
    assert.equal(read(number, { p: '1.50' }), '1.5');
    assert.equal(read(number, { p: '1e3' }), '1000');
    for (const p of ['', 'x', '1.5', 1.5, true, null, [1]]) assert.match(fault(integer, { p }), /whole number/);
    for (const p of ['', 'x', 'NaN', 'Infinity', '1e999', '0x1', true, null])
      assert.match(fault(number, { p }), /number/);
  });

  test('of numbers keeps its bounds', () => {
    const bounded = { ...integer, min: -1, max: 3 };
    assert.deepEqual(
      [-1, '3'].map((p) => read(bounded, { p })),
      ['-1', '3'],
    );
    assert.match(fault(bounded, { p: -2 }), /at least -1/);
    assert.match(fault(bounded, { p: '4' }), /at most 3/);
    assert.match(fault({ ...number, min: 0 }, { p: -0.1 }), /at least 0/);
  });

  test('of text keeps to its values', () => {
    const chosen = { ...text, values: ['fast', 'slow'] };
    assert.equal(read(chosen, { p: 'slow' }), 'slow');
    for (const p of ['Fast', 'fast ', 'f', 'fast, slow']) assert.match(fault(chosen, { p }), /one of fast, slow/);
    assert.equal(read(chosen, {}), '');
  });

  test('of text matches its pattern from its first letter to its last', () => {
    const matched = { ...text, pattern: '[a-z]+|[0-9]+' };
    assert.equal(read(matched, { p: 'abc' }), 'abc');
    assert.equal(read(matched, { p: '123' }), '123');
    for (const p of ['abc1', '1abc', ' abc', 'abc ', 'A', '-abc']) assert.match(fault(matched, { p }), /must match/);
    assert.equal(read({ ...text, pattern: '\\p{Lu}.' }, { p: '\u00c4\ud83d\ude80' }), '\u00c4\ud83d\ude80');
  });
});

describe('a command line', () => {
  test('has its parameters in their places, and nothing else changed', () => {
    const command = ['solve', '--steps={steps}', '{mesh}', '{mesh}.{steps}', '{}', '{unknown}', '{a b}', '$steps'];
    const argv = buildToolArgv({ command, parameters: {} }, { steps: '7', mesh: 'm' });
    assert.deepEqual(argv, ['solve', '--steps=7', 'm', 'm.7', '{}', '', '{a b}', '$steps']);
  });

  test('keeps an empty parameter as an empty argument', () => {
    assert.deepEqual(buildToolArgv({ command: ['a', '{x}', '-o{x}'], parameters: {} }, { x: '' }), ['a', '', '-o']);
  });

  test('keeps a value inside its argument, and never reads it as a template', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (x, y) => {
        const argv = buildToolArgv({ command: ['run', '--x={x}', '{y}', 'z'], parameters: {} }, { x, y });
        assert.deepEqual(argv, ['run', `--x=${x}`, y, 'z']);
      }),
    );
    for (const x of ['{y}', '$&', '$1', "$'", '$$', '; rm -rf /', '{x}']) {
      assert.deepEqual(buildToolArgv({ command: ['{x}'], parameters: {} }, { x, y: 'no' }), [x]);
    }
  });
});
