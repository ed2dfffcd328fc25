import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import type { Timeline } from '#client';
import { submissionCommands } from '../../web/src/features/jobs/job/submission-commands.ts';

const hostile = `it's "x" $(touch owned) \`id\` \\ \n é 😀 -- *`;

function timelineOf(request: Partial<Timeline['request']>): Timeline {
  return {
    job: { project_name: 'proj_hpc_one_01', title: `-${hostile}` },
    tags: ['alpha', 'beta'],
    request: { command: null, tool: null, nodes: 2, cores_per_node: 6, runtime: 0.5, params: {}, ...request },
  } as Timeline;
}

const target = { url: 'https://bursar.example.org', hpc: 'hpc_one' };

/** The arguments that a shell passes to a command. */
function argumentsOf(command: string, text: string): string[] {
  const script = `${command}() { printf '%s\\0' "$@"; }\n${text}`;
  const output = execFileSync('sh', ['-c', script], { encoding: 'utf8', env: { BURSAR_TOKEN: 'from-environment' } });
  return output.split('\0').slice(0, -1);
}

test('the command line passes every value as it is', () => {
  const { commandLine } = submissionCommands(timelineOf({ command: hostile }), target);
  assert.deepEqual(argumentsOf('bursar', commandLine), [
    ...['submit', 'folder', '--system', 'hpc_one', '--project', 'proj_hpc_one_01', '--command', hostile],
    ...['--nodes', '2', '--cores', '6', '--runtime', '0.5', `--title=-${hostile}`, '--tag', 'alpha', '--tag', 'beta'],
  ]);
});

test('parameters of a tool: a list of words is quoted a second time', () => {
  const { commandLine } = submissionCommands(timelineOf({ tool: 'BASH', params: { words: ['a b', "c'd"] } }), target);
  const [parameter = ''] = argumentsOf('bursar', commandLine).slice(-1);
  assert.match(parameter, /^words=/);
  assert.deepEqual(argumentsOf('split', `split ${parameter.slice('words='.length)}`), ['a b', "c'd"]);
});

test('curl sends the request in ASCII, with the token of the environment', () => {
  const { curl } = submissionCommands(timelineOf({ command: hostile }), target);
  assert.match(curl, /"Authorization: Bearer \$BURSAR_TOKEN"/);
  const [url, ...rest] = argumentsOf('curl', curl);
  assert.equal(url, 'https://bursar.example.org/jobs/hpc_one/proj_hpc_one_01/');
  assert.ok(rest.includes('Authorization: Bearer from-environment'));
  const payload = rest.find((each) => each.startsWith('Payload: '))?.slice('Payload: '.length) ?? '';
  assert.match(payload, /^[\x20-\x7e]+$/);
  assert.deepEqual(JSON.parse(payload), {
    ...{ command: hostile, node_number: 2, core_number: 6, runtime: 0.5, title: `-${hostile}` },
    tags: ['alpha', 'beta'],
  });
});
