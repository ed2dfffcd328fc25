import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Timeline } from '#client';
import { submissionCommands } from '../../../web/src/features/jobs/job/submission-commands.ts';
import { runPython } from '../../support/python.ts';

/** Prints the arguments of the call of `submit` in a program, as JSON. */
const reader = `
import ast, json, sys
call = next(node for node in ast.walk(ast.parse(sys.stdin.read())) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "submit")
print(json.dumps({keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}))`;

test('the Python program that the web page shows is valid, and has the values of the job', () => {
  const hostile = `it's "x" $(touch owned) \`id\` \\ \n é 😀 -- *`;
  const timeline = {
    job: { project_name: 'proj_hpc_one_01', title: `-${hostile}` },
    tags: ['alpha', 'beta'],
    request: {
      ...{ command: null, tool: 'BASH', nodes: 2, cores_per_node: 6, runtime: 0.5 },
      params: { words: ['a b', hostile] },
    },
  } as unknown as Timeline;
  const { python } = submissionCommands(timeline, { url: 'https://bursar.example.org', hpc: 'hpc_one' });
  assert.deepEqual(JSON.parse(runPython(reader, { input: python })), {
    ...{ system: 'hpc_one', project: 'proj_hpc_one_01', tool: 'BASH', nodes: 2, cores: 6, runtime: 0.5 },
    ...{ title: `-${hostile}`, tags: ['alpha', 'beta'], params: { words: ['a b', hostile] } },
  });
});
