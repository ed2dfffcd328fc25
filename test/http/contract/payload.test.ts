import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import type { Problem } from '../../support/contract.ts';
import { bashZip, exampleRequest, type JobHistory, runExampleJob, submitShellLine } from '../../support/jobs.ts';
import type { TestServer } from '../../support/server.ts';
import { createZip } from '../../support/zip.ts';
import { disposition, openSubmissionFixture, type SubmissionFixture } from './submission-fixture.ts';

// The requirements of the interface on the fields of the Payload (4.2).

let fixture: SubmissionFixture;
let server: TestServer;
let me: Caller;
let newcomer: Caller;
let post: SubmissionFixture['post'];
let readState: SubmissionFixture['readState'];

before(async () => {
  fixture = await openSubmissionFixture();
  ({ server, me, newcomer, post, readState } = fixture);
});
after(() => fixture.server.dispose());

/** Asserts that the submission was accepted, and waits for the end of the job. */
async function assertAccepted(response: ApiResponse<Job>): Promise<Job> {
  assert.equal(response.status, 201, response.text);
  await me.waitUntilFinished(response.body);
  return response.body;
}

test('4.2 Payload is a JSON object: anything else is 400', async () => {
  for (const payload of ['', '{', 'true', 'null', '7', '"text"', '[]', "{'command': 'true'}", 'command=true']) {
    const { status, body } = await post('/jobs/hpc_one/', { 'content-disposition': disposition, payload });
    assert.deepEqual([status, body.code], [400, 'invalid_payload'], payload);
  }
});

test('4.2 numbers are accepted as strings and as numbers, with the same result', async () => {
  const text = await submitShellLine(me, '/jobs/hpc_one/', 'true', {
    node_number: '2',
    core_number: '3',
    runtime: '1.5',
  });
  const number = await submitShellLine(me, '/jobs/hpc_one/', 'true', { node_number: 2, core_number: 3, runtime: 1.5 });
  for (const { status, text: json } of [text, number]) {
    assert.equal(status, 201);
    assert.ok(json.includes('"runtime":1.5,'), json);
  }
});

test('4.2 runtime is returned as a float for every accepted notation', async () => {
  for (const [hpc, written, float] of [
    ['hpc_one', '2', '2.0'],
    ['hpc_one', '"2"', '2.0'],
    ['hpc_two', '0.25', '0.25'],
    ['hpc_two', '"0.250"', '0.25'],
    ['hpc_two', '".25"', '0.25'],
    ['hpc_two', '"2.5e-1"', '0.25'],
    ['hpc_two', '"+0.25"', '0.25'],
    ['hpc_two', '"1."', '0.5'],
  ] as const) {
    const program = hpc === 'hpc_one' ? '"command": "true"' : '"tool": "BASH"';
    const payload = `{${program}, "runtime": ${written}}`;
    const { text } = await post(`/jobs/${hpc}/`, { 'content-disposition': disposition, payload }, bashZip);
    assert.ok(text.includes(`"runtime":${float},`), `${payload}: ${text}`);
  }
});

let defaults: Record<'hpc_one' | 'hpc_two', JobHistory>;
test('4.2 every field has a default: the job is accepted, and runs', async () => {
  const [one, two] = await Promise.all([
    runExampleJob(server, newcomer, 'hpc_one', {}),
    runExampleJob(server, newcomer, 'hpc_two', {}),
  ]);
  defaults = { hpc_one: one, hpc_two: two };
  assert.deepEqual([one.finished.body.stage, two.finished.body.stage], ['SUCCESSFUL', 'COMPLETED']);
});

test("4.2 runtime defaults to the system's own default: 1.0 on hpc_one, 0.5 on hpc_two", () => {
  assert.ok(defaults.hpc_one.submitted.text.includes('"runtime":1.0,'));
  assert.ok(defaults.hpc_two.submitted.text.includes('"runtime":0.5,'));
});

test('4.2 node_number and core_number default to 1: the hold is the runtime of one core', () => {
  for (const [history, seconds] of [
    [defaults.hpc_one, 3600],
    [defaults.hpc_two, 1800],
  ] as const) {
    assert.equal(history.before.time_left - history.during.time_left, seconds);
  }
});

test("4.2 title defaults to ''", () => {
  assert.equal(defaults.hpc_one.submitted.body.title, '');
  assert.equal(defaults.hpc_two.finished.body.title, '');
});

const titles = ['Größe 10 µm', '名前 ✓ 🚀', 'a "quoted" \\ title', '<b>&amp;</b>', "'; drop table jobs; --", ' ', '{}'];
for (const title of titles) {
  test(`4.2 title: ${JSON.stringify(title)} in UTF-8 is returned unchanged`, async () => {
    const payload = Buffer.from(JSON.stringify({ tool: 'BASH', title })).toString('latin1');
    const headers = { 'content-disposition': disposition, payload };
    const job = await assertAccepted(await post('/jobs/hpc_two/', headers, bashZip));
    assert.equal(job.title, title);
    assert.equal((await me.get<Job[]>('/jobs/hpc_two/')).body.at(-1)?.title, title);
  });
}

test('4.2 title: latin1 and JSON escapes are returned as the same text', async () => {
  const submit = (payload: string) => post('/jobs/hpc_two/', { 'content-disposition': disposition, payload }, bashZip);
  const latin1 = await submit(JSON.stringify({ tool: 'BASH', title: 'Größe déjà vu' }));
  assert.equal(latin1.body.title, 'Größe déjà vu');
  const escaped = await submit('{"tool": "BASH", "title": "\\u540d\\u524d \\ud83d\\ude80"}');
  assert.equal(escaped.body.title, '名前 🚀');
});

test('4.2 command applies to hpc_one only, and tool to hpc_two only: the response names the rejected field', async () => {
  for (const [path, payload, field] of [
    ['/jobs/hpc_one/', { command: 'true', tool: 'BASH' }, 'tool'],
    ['/jobs/hpc_two/', { command: 'true', tool: 'BASH' }, 'command'],
  ] as const) {
    const { status, body } = await me.submit(path, payload);
    assert.equal(status, 400);
    assert.deepEqual(
      (body as unknown as Problem).errors?.map((error) => error.field),
      [field],
    );
  }
});

const invalidValues: [system: 'hpc_one' | 'hpc_two', field: string, values: unknown[]][] = [
  [
    'hpc_one',
    'command',
    [undefined, '', '  ', 7, null, ['true'], 'line\nline', 'sbatch', 'sbatch "run.sh', 'x'.repeat(9000)],
  ],
  ['hpc_one', 'command', ['sbatch --uid=0 run.sh', 'sbatch --chdir=/ run.sh', 'sbatch -A other run.sh']],
  ['hpc_two', 'tool', [undefined, '', 'bash', 'NO_SUCH_TOOL', '../BASH', '__proto__', 'constructor', 7, null]],
  [
    'hpc_one',
    'node_number',
    ['', 'two', '1.5', 1.5, '0', 0, '-1', '65', 65, '1e1', '0x1', ' 1', true, null, [], '9'.repeat(30)],
  ],
  ['hpc_two', 'core_number', ['', 'six', '0.5', '0', '-6', '129', 129, {}, null]],
  [
    'hpc_one',
    'runtime',
    ['', 'long', '0', 0, '0.0', '-1', '48.01', 49, 'NaN', 'Infinity', '1e999', '1,5', '2h', true, null],
  ],
  ['hpc_two', 'runtime', ['', 'long', '0', '-0.5', 'NaN', null]],
  ['hpc_one', 'title', [7, null, ['a'], {}, 'tab\there', 'nul\u0000', 'x'.repeat(257)]],
  ['hpc_two', 'nodes', ['2']],
  ['hpc_one', '__proto__', ['x']],
];
for (const [hpc, field, values] of invalidValues) {
  test(`4.2 ${hpc}: an invalid ${field} is 400, names the field, and changes nothing`, async () => {
    const before = await readState();
    const valid: Record<string, unknown> = {
      ...exampleRequest,
      ...(hpc === 'hpc_one' ? { command: 'true' } : { tool: 'BASH' }),
    };
    for (const value of values) {
      const entries = Object.entries(valid).filter(([name]) => name !== field);
      const payload = JSON.stringify(Object.fromEntries(entries)).replace(
        /\}$/,
        value === undefined ? '}' : `,${JSON.stringify(field)}:${JSON.stringify(value)}}`,
      );
      const { status, body } = await post(`/jobs/${hpc}/`, { 'content-disposition': disposition, payload });
      assert.equal(status, 400, payload.slice(0, 200));
      assert.equal(body.code, 'invalid_payload');
      assert.deepEqual(
        body.errors?.map((error) => error.field),
        [field],
      );
      assert.match(body.detail, new RegExp(field));
    }
    assert.deepEqual(await readState(), before);
  });
}

test('4.2 all errors of a Payload are reported together', async () => {
  const { status, body } = await me.submit('/jobs/hpc_one/', {
    node_number: 'x',
    core_number: 'y',
    runtime: 'z',
    extra: 1,
  });
  assert.equal(status, 400);
  const fields = (body as unknown as Problem).errors?.map((error) => error.field);
  assert.deepEqual(fields?.toSorted(), ['command', 'core_number', 'extra', 'node_number', 'runtime']);
});

test('4.2 the maximum runtime is granted, and a longer one is clamped on hpc_two only', async () => {
  const longest = { node_number: '1', core_number: '1', runtime: '48.0' };
  assert.equal((await submitShellLine(me, '/jobs/hpc_one/', 'true', longest)).status, 201);
  for (const runtime of ['0.5', '0.51', '48.0', '1e9']) {
    const { text } = await submitShellLine(me, '/jobs/hpc_two/', 'true', { runtime });
    assert.ok(text.includes('"runtime":0.5,'), text);
  }
  assert.ok(
    (await submitShellLine(me, '/jobs/hpc_two/', 'true', { runtime: '0.25' })).text.includes('"runtime":0.25,'),
  );
});

test('4.2 an invalid Payload is rejected before the body is read, with a valid and with an invalid zip', async () => {
  for (const body of [await createZip({ 'main.sh': 'true\n' }), Buffer.from('no zip')]) {
    const response = await post('/jobs/hpc_two/', { 'content-disposition': disposition, payload: '{}' }, body);
    assert.deepEqual([response.status, response.body.code], [400, 'invalid_payload']);
  }
});
