import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { configWithTool, fieldErrors } from './validation-errors.ts';

describe('validateConfig: tool parameters', () => {
  const invalidFields = (parameter: object) =>
    Object.keys(fieldErrors(configWithTool({ parameters: { p: parameter } })));
  const parameterPath = /^systems\.hpc_two\.tools\.TOOL\.parameters\.p/;
  const assertRejected = (parameter: object) => {
    const found = invalidFields(parameter);
    assert.ok(
      found.some((field) => parameterPath.test(field)),
      `accepted: ${JSON.stringify(parameter)}`,
    );
  };

  test('accepts valid declarations', () => {
    for (const parameter of [
      {},
      { type: 'string', pattern: '[a-z]+', default: 'x' },
      { type: 'string', values: ['a', 'b'], default: 'a' },
      { type: 'integer', min: 1, max: 3, default: 2 },
      { type: 'number', default: '0.5' },
      { type: 'words', default: '-v "two words"', pattern: '[-a-z ]+', allowOptions: true },
      { type: 'string', values: ['-O2', '-O3'], default: '-O2', allowOptions: true },
    ]) {
      assert.deepEqual(invalidFields(parameter), [], JSON.stringify(parameter));
    }
  });

  test('rejects a pattern that is not a regular expression', () => {
    for (const pattern of ['(', '[', '*', '\\', '(?<n', '\\p{Nonsense}', 'a{2,1}']) assertRejected({ pattern });
  });

  test('rejects a default that would not be accepted in a Payload', () => {
    assertRejected({ type: 'integer', default: 'many' });
    assertRejected({ type: 'number', default: 'many' });
    assertRejected({ type: 'integer', default: 1.5 });
    assertRejected({ type: 'integer', min: 1, default: 0 });
    assertRejected({ type: 'number', max: 1, default: 2 });
    assertRejected({ values: ['a'], default: 'b' });
    assertRejected({ pattern: '[a-z]+', default: 'B' });
    assertRejected({ type: 'words', default: 'an "open quote' });
  });

  test('rejects defaults and values that begin with "-", unless the declaration allows it', () => {
    assertRejected({ default: '-v' });
    assertRejected({ type: 'words', default: 'a -v' });
    assertRejected({ values: ['fast', '-O2'] });
  });

  test('rejects words that are not an argument by themselves', () => {
    const parameters = { p: { type: 'words' } };
    const commandErrors = (command: string[]) => fieldErrors(configWithTool({ command, parameters }));
    assert.deepEqual(commandErrors(['run', '{p}', 'x']), {});
    for (const command of [['{p}'], ['run', '--p={p}'], ['run', '{p}{p}']]) {
      assert.match(commandErrors(command)['systems.hpc_two.tools.TOOL.command'] ?? '', /argument by itself/);
    }
  });

  test('rejects a minimum above the maximum', () => {
    assertRejected({ type: 'integer', min: 3, max: 2 });
  });

  test('rejects the names of common Payload fields', () => {
    for (const name of ['title', 'runtime', 'node_number', 'core_number', 'tool', 'command']) {
      const found = Object.keys(fieldErrors(configWithTool({ parameters: { [name]: {} } })));
      assert.ok(found.length > 0, `accepted: ${name}`);
    }
  });
});
