import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { FieldError } from '../../../src/domain/errors.ts';
import { buildToolArgv, parseToolParameters } from '../../../src/domain/jobs/tool-command.ts';
import type { Tool, ToolParameter } from '../../../src/domain/systems/system.ts';

const toolWith = (parameters: Record<string, ToolParameter>, command = ['run']): Tool => ({ command, parameters });

/** Parses the parameter `p`: returns its text, or its errors. */
function parse(parameter: ToolParameter, payload: Record<string, unknown>): string | string[] | FieldError[] {
  const errors: FieldError[] = [];
  const { p = '' } = parseToolParameters(payload, toolWith({ p: parameter }), errors);
  return errors.length > 0 ? errors : p;
}

function parseError(parameter: ToolParameter, payload: Record<string, unknown>): string {
  const errors: FieldError[] = [];
  const { p } = parseToolParameters(payload, toolWith({ p: parameter }), errors);
  assert.deepEqual(
    errors.map((error) => error.field),
    ['p'],
    `accepted as ${JSON.stringify(p)}`,
  );
  return errors[0]?.message ?? '';
}

const text: ToolParameter = { type: 'string', required: false };
const integer: ToolParameter = { type: 'integer', required: false };
const number: ToolParameter = { type: 'number', required: false };

describe('parseToolParameters', () => {
  test('uses the default of a missing parameter, or an empty string', () => {
    for (const parameter of [text, integer, number]) assert.equal(parse(parameter, {}), '');
    assert.equal(parse({ ...text, default: 'x' }, {}), 'x');
    assert.equal(parse({ ...text, default: 7 }, {}), '7');
    assert.equal(parse({ ...integer, default: 7 }, {}), '7');
    assert.equal(parse({ ...integer, default: '7' }, {}), '7');
    assert.equal(parse({ ...number, default: 0.5 }, {}), '0.5');
    assert.equal(parse({ ...integer, default: 0 }, {}), '0');
  });

  test('rejects a missing required parameter without a default', () => {
    for (const parameter of [text, integer, number]) {
      assert.match(parseError({ ...parameter, required: true }, {}), /required/);
    }
    assert.match(parseError({ ...text, required: true }, { p: '' }), /empty/);
    assert.equal(parse({ ...text, required: true, default: 'x' }, {}), 'x');
  });

  test('treats a missing parameter with the name of an object member as missing', () => {
    const errors: FieldError[] = [];
    const parameters = { constructor: integer, valueof: integer, hasown: text };
    assert.deepEqual(parseToolParameters({}, toolWith(parameters), errors), {
      constructor: '',
      valueof: '',
      hasown: '',
    });
    assert.deepEqual(errors, []);
  });

  test('keeps strings unchanged, and rejects invalid ones', () => {
    assert.equal(parse(text, { p: ' a $(id) "b" ' }), ' a $(id) "b" ');
    assert.equal(parse(text, { p: '' }), '');
    assert.equal(parse(text, { p: 'x'.repeat(1024) }), 'x'.repeat(1024));
    for (const p of ['x'.repeat(1025), 'a\nb', 'a\0b', 7, true, null, [], {}])
      assert.match(parseError(text, { p }), /must/);
  });

  test('normalizes numbers, and rejects invalid ones', () => {
    assert.equal(parse(integer, { p: '+7' }), '7');
    assert.equal(parse(integer, { p: '007' }), '7');
    assert.equal(parse(integer, { p: -7 }), '-7');
    assert.equal(parse(integer, { p: '-0' }), '0');
    assert.equal(parse(number, { p: '1.50' }), '1.5');
    assert.equal(parse(number, { p: '1e3' }), '1000');
    for (const p of ['', 'x', '1.5', 1.5, true, null, [1]]) assert.match(parseError(integer, { p }), /whole number/);
    for (const p of ['', 'x', 'NaN', 'Infinity', '1e999', '0x1', true, null])
      assert.match(parseError(number, { p }), /number/);
  });

  test('enforces min and max', () => {
    const bounded = { ...integer, min: -1, max: 3 };
    assert.deepEqual(
      [-1, '3'].map((p) => parse(bounded, { p })),
      ['-1', '3'],
    );
    assert.match(parseError(bounded, { p: -2 }), /at least -1/);
    assert.match(parseError(bounded, { p: '4' }), /at most 3/);
    assert.match(parseError({ ...number, min: 0 }, { p: -0.1 }), /at least 0/);
  });

  test('enforces the allowed values', () => {
    const restricted = { ...text, values: ['fast', 'slow'] };
    assert.equal(parse(restricted, { p: 'slow' }), 'slow');
    for (const p of ['Fast', 'fast ', 'f', 'fast, slow'])
      assert.match(parseError(restricted, { p }), /one of fast, slow/);
    assert.equal(parse(restricted, {}), '');
  });

  test('matches the pattern against the whole value', () => {
    const matched = { ...text, pattern: '[a-z]+|[0-9]+' };
    assert.equal(parse(matched, { p: 'abc' }), 'abc');
    assert.equal(parse(matched, { p: '123' }), '123');
    for (const p of ['abc1', '1abc', ' abc', 'abc ', 'A', '-abc'])
      assert.match(parseError(matched, { p }), /must match/);
    assert.equal(parse({ ...text, pattern: '\\p{Lu}.' }, { p: '\u00c4\ud83d\ude80' }), '\u00c4\ud83d\ude80');
  });
});

describe('a value that begins with "-"', () => {
  const words: ToolParameter = { type: 'words', required: false };
  test('is rejected, because the program would take it for an option', () => {
    for (const p of ['--to-command=id', '-', '-x', '--']) {
      assert.equal(parseError(text, { p }), 'must not begin with "-"');
      assert.equal(parseError(words, { p }), 'every word must not begin with "-"');
      assert.equal(parseError(words, { p: ['a', p] }), 'every word must not begin with "-"');
      assert.match(parseError({ ...text, values: ['a', p] }, { p }), /begin/);
      assert.match(parseError({ ...text, pattern: '.*' }, { p }), /begin/);
    }
    assert.equal(parseError(words, { p: "a '-b c'" }), 'every word must not begin with "-"');
    assert.equal(parse(text, { p: 'a-b --c' }), 'a-b --c');
    assert.deepEqual(parse(words, { p: 'a-b c-' }), ['a-b', 'c-']);
  });

  test('is accepted if the declaration allows it', () => {
    assert.equal(parse({ ...text, allowOptions: true }, { p: '--fast' }), '--fast');
    assert.deepEqual(parse({ ...words, allowOptions: true }, { p: '--steps 100' }), ['--steps', '100']);
    assert.match(parseError({ ...text, allowOptions: true, values: ['-O2'] }, { p: '-O3' }), /one of -O2/);
  });
});

describe('buildToolArgv', () => {
  test('replaces placeholders and nothing else', () => {
    const command = ['solve', '--steps={steps}', '{mesh}', '{mesh}.{steps}', '{}', '{unknown}', '{a b}', '$steps'];
    const argv = buildToolArgv({ command, parameters: {} }, { steps: '7', mesh: 'm' });
    assert.deepEqual(argv, ['solve', '--steps=7', 'm', 'm.7', '{}', '', '{a b}', '$steps']);
  });

  test('keeps an empty value as an empty argument', () => {
    assert.deepEqual(buildToolArgv({ command: ['a', '{x}', '-o{x}'], parameters: {} }, { x: '' }), ['a', '', '-o']);
  });

  test('keeps a value inside its argument, and never expands it as a template', () => {
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

describe('a parameter of type words', () => {
  const words: ToolParameter = { type: 'words', required: false, allowOptions: true };

  test('is text that is split as a shell splits it, without expanding anything, or a list', () => {
    for (const [value, expected] of [
      ['', []],
      ['  one  two ', ['one', 'two']],
      [`--name "two words" 'it''s' a\\ b ""`, ['--name', 'two words', 'its', 'a b', '']],
      ['$HOME * `id` ; rm -rf | > x', ['$HOME', '*', '`id`', ';', 'rm', '-rf', '|', '>', 'x']],
      [
        ['a b', '"', ''],
        ['a b', '"', ''],
      ],
    ] as const) {
      assert.deepEqual(parse(words, { p: value }), expected);
    }
    assert.deepEqual(parse(words, {}), []);
    assert.deepEqual(parse({ ...words, default: '-v 2' }, {}), ['-v', '2']);
  });

  test('has limits', () => {
    const many = (count: number) => Array.from({ length: count }, () => 'x');
    assert.deepEqual(parse(words, { p: many(64) }), many(64));
    assert.match(parseError(words, { p: many(65) }), /at most 64 words/);
    assert.match(parseError(words, { p: ['x'.repeat(4097)] }), /at most 4096 characters/);
    assert.match(parseError(words, { p: 'an "open quote' }), /unclosed quote/);
    for (const value of [7, null, {}, [1], [['a']]]) assert.match(parseError(words, { p: value }), /list of strings/);
    assert.match(parseError(words, { p: ['a\0b'] }), /control characters/);
    assert.match(parseError({ ...words, required: true }, {}), /required/);
    assert.match(parseError({ ...words, required: true }, { p: ' ' }), /empty/);
    assert.match(parseError({ ...words, pattern: '[a-z]+' }, { p: 'abc 7' }), /every word must match/);
    assert.match(parseError({ ...words, values: ['a', 'b'] }, { p: 'a c' }), /every word must be one of a, b/);
  });

  test('becomes one argument for each word, and none for no word', () => {
    const tool = toolWith({ p: words, q: text }, ['run', '{p}', 'q={q}']);
    assert.deepEqual(buildToolArgv(tool, { p: ['a', '{q}', ''], q: '{p}' }), ['run', 'a', '{q}', '', 'q={p}']);
    assert.deepEqual(buildToolArgv(tool, { p: [], q: '' }), ['run', 'q=']);
  });
});
