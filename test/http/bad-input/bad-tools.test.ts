import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { makeZip } from '../../files/zip/hostile-zips.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { jobPath, readOutput } from '../../support/jobs.ts';
import { assertCleanLog } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';

const parameters = {
  steps: { type: 'integer', required: true, min: 1, max: 100 },
  ratio: { type: 'number', min: 0, max: 1 },
  mode: { type: 'string', values: ['fast', 'slow'], default: 'fast' },
  label: { type: 'string', pattern: '[a-z]+|[0-9]+' },
  archive: { type: 'string' },
  files: { type: 'words' },
};

let server: TestServer;
let state: StateSnapshot;
before(async () => {
  const config: { systems: Record<string, { tools: Record<string, object> }> } = { ...shippedConfig() };
  const system = config.systems.hpc_two;
  assert.ok(system !== undefined);
  system.tools = {
    SOLVER: { command: ['printf', '%s|', '{steps}', '{ratio}', '{mode}', 'label={label}'], parameters },
    MY_TOOL: { command: ['true'] },
  };
  server = await startServer({ config });
  state = await takeStateSnapshot(server, [server.userToken]);
});
after(() => server.dispose());
afterEach(() => state.assertUnchanged());

const submit = (payload: Record<string, unknown>, zip?: Uint8Array) =>
  createCaller(server.url, server.userToken).submit('/jobs/hpc_two/', payload, zip);

describe('parameters of a tool', () => {
  // One value for each rule. The table is in test/domain/jobs/invalid-payload.test.ts.
  const wrong: [string, string, unknown, RegExp][] = [
    ['a required parameter that is missing', 'steps', undefined, /required/],
    ['a number below its minimum', 'steps', 0, /at least 1/],
    ['a number above its maximum', 'ratio', '1.01', /at most 1/],
    ['a number that is not whole', 'steps', 1.5, /whole number/],
    ['a number with a command after it', 'steps', '1; id', /whole number/],
    ['a value that is not on the list', 'mode', 'medium', /one of fast, slow/],
    ['a text that matches its pattern only in part', 'label', 'abc1', /must match/],
    ['a text with control characters', 'label', 'abc\n', /control characters/],
    ['a text that the program would take for an option', 'archive', '--to-command=id', /must not begin with "-"/],
    ['a word that the program would take for an option', 'files', 'a --to-command=id', /every word must not begin/],
    ['a text that is an object', 'label', { a: 1 }, /must be a string/],
    ['a text of 2 kB', 'label', 'x'.repeat(2000), /1024 characters/],
    [
      'a parameter that the tool does not have',
      'colour',
      'blue',
      /not a known field.*steps, ratio, mode, label, archive, files/,
    ],
  ];
  for (const [name, field, value, message] of wrong) {
    test(`${name} is rejected`, async () => {
      const response = await submit({ tool: 'SOLVER', steps: 1, [field]: value });
      const problem = assertProblem(response, { status: 400, code: 'invalid_payload', message });
      assert.deepEqual(
        problem.errors?.map((error) => error.field),
        [field],
      );
    });
  }

  test('of another tool are rejected', async () => {
    const problem = assertProblem(await submit({ tool: 'MY_TOOL', steps: 1 }), {
      status: 400,
      code: 'invalid_payload',
    });
    assert.deepEqual(
      problem.errors?.map((error) => error.field),
      ['steps'],
    );
  });

  test('are described by /hpc/, with their choices and ranges', async () => {
    interface System {
      tools: { name: string; parameters: object[] }[];
    }
    const { body } = await createCaller(server.url, server.userToken).get<System>('/hpc/hpc_two/');
    const none = { required: false, default: null, values: null, pattern: null, min: null, max: null };
    assert.deepEqual(body.tools.find(({ name }) => name === 'SOLVER')?.parameters, [
      { ...none, name: 'steps', type: 'integer', required: true, min: 1, max: 100 },
      { ...none, name: 'ratio', type: 'number', min: 0, max: 1 },
      { ...none, name: 'mode', type: 'string', default: 'fast', values: ['fast', 'slow'] },
      { ...none, name: 'label', type: 'string', pattern: '[a-z]+|[0-9]+' },
      { ...none, name: 'archive', type: 'string' },
      { ...none, name: 'files', type: 'words' },
    ]);
  });

  test('are passed to the command unchanged, each as a separate argument', async () => {
    const { status, body, text } = await submit({ tool: 'SOLVER', steps: '7', ratio: '0.50', label: 'abc' });
    assert.equal(status, 201, text);
    const job = await createCaller(server.url, server.userToken).waitUntilFinished(body);
    assert.equal(job.stage, 'COMPLETED');
    assert.equal(readOutput(server, job), '7|0.5|fast|label=abc|');
    await state.update();
  });
});

describe('a tool with an underscore in its name', () => {
  for (const [name, files] of [
    ['without files', undefined],
    ['with files', { 'data.txt': 'hello' }],
  ] as const) {
    test(`runs jobs ${name}`, async () => {
      const { status, body, text } = await submit({ tool: 'MY_TOOL' }, files && (await makeZip(files)));
      assert.equal(status, 201, text);
      const getJob = async () => (await createCaller(server.url, server.userToken).get<Job>(jobPath(body))).body;
      const job = await until('the end of the job', async () => {
        const current = await getJob();
        return current.terminal_stage ? current : undefined;
      });
      assert.equal(job.stage, 'COMPLETED');
      await state.update();
    });
  }
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken]);
});
