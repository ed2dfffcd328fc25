import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  combine,
  describeCombination,
  parseParameters,
  parseSweptParameter,
} from '../../../src/cli/user/submit/parameters.ts';
import { applyParameters } from '../../../src/cli/user/submit/placeholders.ts';
import { resultFolderName } from '../../../src/cli/user/sweep/result-folder.ts';

const valuesOf = (text: string) => parseSweptParameter(text).values;

describe('parameters of a sweep', () => {
  for (const [text, expected] of [
    ['a=1,2,3', ['1', '2', '3']],
    ['a=one', ['one']],
    ['a=x\\,y,z', ['x,y', 'z']],
    ['b=0.1..0.5:0.1', ['0.1', '0.2', '0.3', '0.4', '0.5']],
    ['b=1..4', ['1', '2', '3', '4']],
    ['b=4..1', ['4', '3', '2', '1']],
    ['b=1..2:0.25', ['1', '1.25', '1.5', '1.75', '2']],
    ['b=-0.2..0.2:0.1', ['-0.2', '-0.1', '0', '0.1', '0.2']],
    ['b=1..0:-0.5', ['1', '0.5', '0']],
    ['b=0..1:0.3', ['0', '0.3', '0.6', '0.9']],
    ['b=5..5', ['5']],
    ['b=0.001..0.003:0.001,1', ['0.001', '0.002', '0.003', '1']],
    ['path=../data', ['../data']],
    ['c=9007199254740993..9007199254740995', ['9007199254740993', '9007199254740994', '9007199254740995']],
  ] as const)
    test(`${text} has the values ${expected.join(' ')}`, () => assert.deepEqual(valuesOf(text), expected));

  for (const [text, message] of [
    ['a', /name=value/],
    ['=1', /name=value/],
    ['a b=1', /name=value/],
    ['a=', /a value is empty/],
    ['a=1,,2', /a value is empty/],
    ['a=1,1', /1 occurs twice/],
    ['a=1..3,2', /2 occurs twice/],
    ['a=1..2:0', /must not be 0/],
    ['a=1..2:-1', /the other sign/],
    ['a=1..1000000', /more than 10000 values/],
    ['a=0..1:0.000000001', /more than 10000 values/],
  ] as const)
    test(`${text} is an error`, () => {
      assert.throws(() => parseSweptParameter(text), { code: 'invalid_argument', message });
    });

  test('every combination occurs once, and the last parameter varies fastest', () => {
    const combinations = combine(['a=1,2', 'b=x,y,z'].map(parseSweptParameter));
    assert.deepEqual(combinations.map(describeCombination), [
      'a=1 b=x',
      'a=1 b=y',
      'a=1 b=z',
      'a=2 b=x',
      'a=2 b=y',
      'a=2 b=z',
    ]);
  });

  test('too many combinations, and a name that is given twice, are errors', () => {
    assert.throws(() => combine(['a=1..200', 'b=1..200'].map(parseSweptParameter)), /40000 combinations/);
    assert.throws(() => combine(['a=1', 'a=2'].map(parseSweptParameter)), /given twice/);
    assert.throws(() => parseParameters(['a=1', 'a=2']), /given twice/);
  });

  test('the folders of different combinations have different names, without special characters', () => {
    assert.equal(resultFolderName({ a: '1', b: '0.5' }), 'a=1,b=0.5');
    const names = ['../x', '..\\x', '.. x', 'a/../../x', 'y'.repeat(300), 'y'.repeat(301)].map((a) =>
      resultFolderName({ a }),
    );
    assert.equal(new Set(names).size, names.length);
    for (const name of names) assert.match(name, /^a=[\p{L}\p{N}_.,=+-]{1,140}$/u);
  });
});

describe('parameters of a job', () => {
  const settings = { command: "run --x {a} | awk '{print $1}'", title: 'x {a}', tags: ['a-{a}'], params: {} };

  test('replace their placeholders in the command, the title and the tags, and nothing else', () => {
    const { command, title, tags, params } = applyParameters(settings, { a: '0.5' }, []);
    assert.deepEqual(
      { command, title, tags, params },
      { command: "run --x 0.5 | awk '{print $1}'", title: 'x 0.5', tags: ['a-0.5'], params: {} },
    );
  });

  test('are passed to the tool if they are its own', () => {
    const ofTool = { tool: 'BASH', title: '{steps}', params: {} };
    assert.deepEqual(applyParameters(ofTool, { steps: '7' }, ['steps']).params, { steps: '7' });
    const filled = applyParameters(ofTool, { arguments: '--x {a}', a: '1' }, ['arguments']);
    assert.deepEqual(filled.params, { arguments: '--x 1' });
  });

  test('are an error if nothing uses them', () => {
    const error = { code: 'invalid_argument' };
    assert.throws(() => applyParameters(settings, { a: '1', b: '2' }, []), { ...error, message: /parameter b.*\{b\}/ });
    assert.throws(() => applyParameters({ tool: 'T', params: {} }, { b: '2' }, ['x', 'y']), {
      ...error,
      message: /T has the parameters x, y: pass it by --param x="\{b\}"/,
    });
    // The title and the tags change nothing that runs.
    const labels = { title: '{b}', tags: ['{b}'], params: {} };
    for (const program of [{ command: 'run' }, { tool: 'T' }])
      assert.throws(() => applyParameters({ ...labels, ...program }, { b: '2', x: '1' }, ['x']), error);
  });
});
