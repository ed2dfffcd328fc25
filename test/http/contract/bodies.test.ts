import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import { loadOpenApiContract, type Problem } from '../../support/contract.ts';
import { listStoredFiles, readOutput } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { createZip } from '../../support/zip.ts';

// Decisions on the body of a submission that the interface (4.2) leaves open: how the zip is sent, that its content is
// executed, and how a job ends that cannot run (3).

let server: TestServer;
let me: Caller;

before(async () => {
  server = await startServer();
  me = (await loadOpenApiContract(server)).callerFor(server.userToken);
});
after(() => server.dispose());

type Body = NonNullable<RequestInit['body']>;
type Submission = ApiResponse<Job & Problem>;

function post(payload: Record<string, unknown>, headers: Record<string, string>, body?: Body): Promise<Submission> {
  const path = 'tool' in payload ? '/jobs/hpc_two/' : '/jobs/hpc_one/';
  const submission = { 'content-disposition': 'attachment; filename=job.zip', payload: JSON.stringify(payload) };
  return me.send('POST', path, { ...submission, ...headers }, body) as Promise<Submission>;
}

/** Runs a job to its end. `print` reads its output. */
async function run(payload: Record<string, unknown>, files?: Record<string, string | Uint8Array>) {
  const response = await post(payload, {}, files && (await createZip(files)));
  assert.equal(response.status, 201, response.text);
  const job = await me.waitUntilFinished(response.body);
  return { job, print: (stream: 'stdout' | 'stderr') => readOutput(server, job, stream) };
}

function assertEnds({ stage, terminal_stage, failed, end_date }: Job, as: string): void {
  assert.deepEqual({ stage, terminal_stage, failed }, { stage: as, terminal_stage: true, failed: as === 'FAILED' });
  assert.match(end_date ?? '', /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/);
}

// How the zip is sent.

const fileContent = 'the content of the zip\n';
const contentTypes: [what: string, headers: Record<string, string>][] = [
  ['without a Content-Type', {}],
  ['as application/zip', { 'content-type': 'application/zip' }],
  ['as application/octet-stream', { 'content-type': 'application/octet-stream' }],
  [
    'as application/x-www-form-urlencoded, the default of curl',
    { 'content-type': 'application/x-www-form-urlencoded' },
  ],
  ['as application/json, although it is not JSON', { 'content-type': 'application/json' }],
  ['as text/plain', { 'content-type': 'text/plain; charset=utf-8' }],
  ['with a Content-Type that is not a media type', { 'content-type': 'rubbish' }],
  ['with a Content-Type of punctuation', { 'content-type': ';;/=,' }],
];
for (const [what, headers] of contentTypes) {
  test(`4.2 body: the raw bytes of the zip, ${what}`, async () => {
    const zip = await createZip({ 'main.sh': 'cat data.txt\n', 'data.txt': fileContent });
    const response = await post({ tool: 'BASH' }, headers, zip);
    assert.equal(response.status, 201, response.text);
    const job = await me.waitUntilFinished(response.body);
    assertEnds(job, 'COMPLETED');
    assert.equal(readOutput(server, job), fileContent);
  });
}

test('4.2 body: the raw bytes of the zip in chunks, without a Content-Length', async () => {
  const zip = await createZip({ 'main.sh': 'cat data.txt\n', 'data.txt': fileContent });
  const parts = Array.from({ length: Math.ceil(zip.length / 50) }, (_, index) =>
    zip.subarray(index * 50, index * 50 + 50),
  );
  const payload = JSON.stringify({ tool: 'BASH' });
  const response = await fetch(`${server.url}/jobs/hpc_two/`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.userToken}`,
      'content-disposition': 'attachment; filename=job.zip',
      payload,
    },
    body: Readable.toWeb(Readable.from(parts)) as Body,
    duplex: 'half',
  });
  assert.equal(response.status, 201);
  const job = await me.waitUntilFinished((await response.json()) as Job);
  assert.equal(readOutput(server, job), fileContent);
});

test('4.2 body: a zip of several megabytes is received completely', async () => {
  const content = randomBytes(3_000_000);
  const { job } = await run({ command: 'cat big.bin > copy.bin' }, { 'big.bin': content });
  assertEnds(job, 'SUCCESSFUL');
  const copy = readFileSync(join(server.data, 'workspaces', job.job_id, 'files', 'copy.bin'));
  assert.ok(content.equals(copy));
});

function createForm(...parts: [name: string, content: Blob | string][]): FormData {
  const form = new FormData();
  for (const [name, content] of parts) {
    if (typeof content === 'string') form.append(name, content);
    else form.append(name, content, 'job.zip');
  }
  return form;
}

test('4.2 body: multipart/form-data with one file is accepted too, with any field name', async () => {
  const zip = new Blob([await createZip({ 'main.sh': 'cat data.txt\n', 'data.txt': fileContent })]);
  for (const field of ['file', 'anything']) {
    const response = await post({ tool: 'BASH' }, {}, createForm([field, zip]));
    assert.equal(response.status, 201, response.text);
    assert.equal(readOutput(server, await me.waitUntilFinished(response.body)), fileContent);
  }
});

test('4.2 body: a multipart form without a file, with two files or with another field is 400', async () => {
  const zip = new Blob([await createZip({ 'main.sh': 'true\n' })]);
  for (const form of [
    createForm(),
    createForm(['field', 'text']),
    createForm(['a', zip], ['b', zip]),
    createForm(['field', 'text'], ['a', zip]),
    createForm(['a', zip], ['field', 'text']),
  ]) {
    const { status, body } = await post({ tool: 'BASH' }, {}, form);
    assert.deepEqual([status, body.code], [400, 'invalid_body']);
  }
});

test('4.2 body: multipart/form-data that is not a valid form is 400', async () => {
  for (const type of ['multipart/form-data', 'multipart/form-data; boundary=x', 'multipart/form-data; boundary=']) {
    const { status, body } = await post(
      { tool: 'BASH' },
      { 'content-type': type },
      await createZip({ 'main.sh': 'true\n' }),
    );
    assert.deepEqual([status, body.code], [400, 'invalid_body'], type);
  }
});

test('4.2 body: an empty body creates a job without input files', async () => {
  const { job, print } = await run({ command: 'ls -A | wc -l' });
  assertEnds(job, 'SUCCESSFUL');
  assert.equal(print('stdout').trim(), '0');
});

test('4.2 body: a body that is not a zip is 400, and nothing is stored', async () => {
  const readState = async () => [
    (await me.get('/jobs/')).text,
    (await me.get('/quotas/')).text,
    listStoredFiles(server),
  ];
  const before = await readState();
  const zip = await createZip({ 'main.sh': 'true\n' });
  for (const body of [
    Buffer.from('no zip at all'),
    Buffer.from('{"json": true}'),
    zip.subarray(0, -10),
    zip.subarray(10),
    Buffer.alloc(1),
    Buffer.alloc(100_000),
  ]) {
    const response = await post({ tool: 'BASH' }, { 'content-type': 'application/zip' }, body);
    assert.deepEqual([response.status, response.body.code], [400, 'invalid_zip']);
  }
  assert.deepEqual(await readState(), before);
});

// hpc_one runs a batch-scheduler command.

test('4.2 command: sbatch runs the script of the zip with its arguments, in the folder of the zip', async () => {
  const { job, print } = await run(
    { command: 'sbatch run.sh one "two words" \'$HOME\'' },
    { 'run.sh': '#!/bin/bash\nprintf "<%s>" "$@"; cat data/in.txt\n', 'data/in.txt': fileContent },
  );
  assertEnds(job, 'SUCCESSFUL');
  assert.equal(print('stdout'), `<one><two words><$HOME>${fileContent}`);
});

const resources = { node_number: '2', core_number: '6', runtime: '1.0', title: 'my job' };

test('4.2 command: options of sbatch that repeat the Payload are accepted, in the script too', async () => {
  const { job, print } = await run(
    { ...resources, command: 'sbatch --nodes=2 -n 12 -t 01:00:00 --job-name "my job" bin/run.sh x' },
    { 'bin/run.sh': '#!/bin/sh\n#SBATCH --ntasks-per-node=6 --time=60\n\necho "$1"\n' },
  );
  assertEnds(job, 'SUCCESSFUL');
  assert.equal(print('stdout'), 'x\n');
});

test('4.2 command: no option of sbatch is accepted and ignored, on the line or in the script', async () => {
  for (const [option, message] of [
    ['--mem=50', /--mem is not allowed; remove it/],
    ['--constraint=gpu', /--constraint is not allowed; remove it/],
    ['--exclusive', /--exclusive is not allowed; .*core_number/],
    ['--ntasks=4', /--ntasks=4 contradicts the Payload: .*use node_number and core_number instead/],
    ['--cpus-per-task=3', /--cpus-per-task=3 contradicts the Payload: .*use core_number/],
    ['--time=2:00:00', /--time=2:00:00 contradicts the Payload: .*use runtime instead/],
    ['--output=out.txt', /--output is not allowed; .*stdout/],
  ] as const) {
    for (const [command, script] of [
      [`sbatch ${option} run.sh`, '#!/bin/sh\ntrue\n'],
      ['sbatch run.sh', `#!/bin/sh\n#SBATCH ${option}\ntrue\n`],
    ] as const) {
      const response = await post({ ...resources, command }, {}, await createZip({ 'run.sh': script }));
      assert.deepEqual([response.status, response.body.code], [400, 'invalid_payload'], `${command}: ${script}`);
      const [field, ...others] = response.body.errors ?? [];
      assert.deepEqual([field?.field, others], ['command', []]);
      assert.match(field?.message ?? '', message);
    }
  }
});

test('4.2 command: a plain command line runs in a shell', async () => {
  const { job, print } = await run({ command: 'echo out && echo err >&2 | cat' });
  assertEnds(job, 'SUCCESSFUL');
  assert.equal(print('stdout'), 'out\n');
});

test('4.2 the output of a job is stored, stdout and stderr separately', async () => {
  const { print } = await run({ command: 'echo to stdout; echo to stderr >&2; printf "ünï\\0"' });
  assert.equal(print('stdout'), 'to stdout\nünï\0');
  assert.equal(print('stderr'), 'to stderr\n');
});

// hpc_two runs a named tool.

for (const [tool, entry, script] of [
  ['BASH', 'main.sh', 'cat data/in.txt\n'],
  ['NODE', 'main.mjs', 'import fs from "node:fs";\nfs.writeSync(1, fs.readFileSync("data/in.txt"));\n'],
] as const) {
  test(`4.2 tool: ${tool} runs ${entry} of the zip, in the folder of the zip`, async () => {
    const { job, print } = await run({ tool }, { [entry]: script, 'data/in.txt': fileContent });
    assertEnds(job, 'COMPLETED');
    assert.equal(print('stdout'), fileContent);
  });
}

for (const [tool, entry, script] of [
  ['BASH', 'main.sh', 'printf "<%s>" "$@"\n'],
  ['NODE', 'main.mjs', 'process.stdout.write(process.argv.slice(2).map((a) => "<" + a + ">").join(""));\n'],
] as const) {
  test(`4.2 tool: ${tool} gets the words of "arguments", each as a separate argument`, async () => {
    const text = await run({ tool, arguments: '--steps 3 "two words" $HOME; -c' }, { [entry]: script });
    assert.equal(text.print('stdout'), '<--steps><3><two words><$HOME;><-c>');
    const list = await run({ tool, arguments: ["it's", '*'] }, { [entry]: script });
    assert.equal(list.print('stdout'), "<it's><*>");
  });
}

// Jobs that fail.

const failures: [what: string, payload: Record<string, unknown>, files?: Record<string, string>][] = [
  ['a command with an exit code', { command: 'exit 3' }],
  ['a tool with an exit code', { tool: 'BASH' }, { 'main.sh': 'exit 3\n' }],
  ['a script with an exit code', { command: 'sbatch run.sh' }, { 'run.sh': '#!/bin/sh\nexit 1\n' }],
  ['a program that raises', { tool: 'NODE' }, { 'main.mjs': 'throw new Error("no");\n' }],
  ['a job that kills itself', { command: 'kill -9 $$' }],
  ['a command that does not exist', { command: 'no-such-program-anywhere' }],
  ['a command that is not valid shell', { command: 'if then fi (' }],
  ['a script without an interpreter line', { command: 'sbatch run.sh' }, { 'run.sh': 'echo hello\n' }],
  ['a job that exceeds its time limit', { command: 'sleep 600', runtime: '0.0003' }],
  ['a tool that exceeds its time limit', { tool: 'BASH', runtime: 0.0003 }, { 'main.sh': 'sleep 600\n' }],
];
for (const [what, payload, files] of failures) {
  test(`2.2 failed is true, and the stage is FAILED: ${what}`, async () => {
    assertEnds((await run(payload, files)).job, 'FAILED');
  });
}

test('2.2 runtime: a very short time limit is returned as the same float', async () => {
  const { text } = await post({ command: 'true', runtime: '0.0003' }, {});
  assert.ok(text.includes('"runtime":0.0003,'), text);
  await me.waitUntilFinished(JSON.parse(text) as Job);
});
