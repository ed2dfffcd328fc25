import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  mergeSettings,
  parseRuntimeHours,
  parseSettings,
  readSettingsFile,
} from '../../../src/cli/user/submit/settings.ts';

describe('bursar.yaml', () => {
  test('may have everything that describes a job', async () => {
    const text = `
system: hpc_one
project: proj_hpc_one_01
command: sbatch run.sh {steps}
nodes: 2
cores: 8
runtime: 90m
title: My job
tags: [first, second]
params:
  steps: 100
`;
    assert.deepEqual(await parseSettings(text, 'bursar.yaml'), {
      system: 'hpc_one',
      project: 'proj_hpc_one_01',
      command: 'sbatch run.sh {steps}',
      nodes: 2,
      cores: 8,
      runtime: 1.5,
      title: 'My job',
      tags: ['first', 'second'],
      params: { steps: '100' },
    });
  });

  test('may be empty or absent', async () => {
    assert.deepEqual(await parseSettings('# nothing yet\n', 'bursar.yaml'), { params: {} });
    assert.deepEqual(await readSettingsFile('/nonexistent'), { params: {} });
  });

  for (const [text, message] of [
    ['sytem: hpc_one', /bursar\.yaml: "sytem" is not a known key\. Did you mean "system"\?/],
    ['core: 8', /Did you mean "cores"\?/],
    ['nodes: 1.5', /nodes must be a whole number/],
    ['nodes: 0', /nodes must be a whole number/],
    ['runtime: soon', /runtime must be a time/],
    ['runtime: -1', /runtime must be a time/],
    ['title: [a]', /title must be text/],
    ['tags: {a: b}', /tags must be a list/],
    ['params: 5', /params must have one parameter a line/],
    ['- system', /must have one setting a line/],
    ['title: "unclosed', /is not valid YAML/],
    ['a: 1\na: 2', /is not valid YAML/],
  ] as const)
    test(`with ${JSON.stringify(text)} is an error`, async () => {
      await assert.rejects(parseSettings(text, 'bursar.yaml'), { code: 'invalid_argument', message });
    });

  test('gives way to options; a tool replaces a command; parameters are merged', () => {
    const file = { system: 'a', command: 'x', nodes: 2, params: { p: '1', q: '2' } };
    const options = { system: 'b', tool: 'BASH', params: { q: '3' } };
    const merged = { system: 'b', tool: 'BASH', nodes: 2, params: { p: '1', q: '3' } };
    assert.deepEqual(mergeSettings(file, options), merged);
  });
});

describe('a runtime', () => {
  for (const [text, hours] of [
    ['1.5', 1.5],
    ['90m', 1.5],
    ['10m', 0.166666],
    ['36s', 0.01],
    ['12h', 12],
    ['2d', 48],
    ['01:30:00', 1.5],
    ['2:15', 2.25],
  ] as const)
    test(`of ${text} has ${hours} hours`, () => assert.equal(parseRuntimeHours(text), hours));
  for (const text of ['', '0', 'x', '1w', '1:60', '1e3', 'Infinity'])
    test(`of ${JSON.stringify(text)} is an error`, () =>
      assert.throws(() => parseRuntimeHours(text), /must be a time/));
});
