import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Caller, Job } from '../../support/api.ts';
import { loadOpenApiContract } from '../../support/contract.ts';
import { listStoredFiles, readOutput } from '../../support/jobs.ts';
import { assertProblem } from '../../support/problems.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { createZip } from '../../support/zip.ts';

// The file that a job starts with: its script, or the entry of its tool. It is at the top of the zip, or in the only folder
// of a zip that a file manager made.

let server: TestServer;
let me: Caller;

before(async () => {
  server = await startServer();
  me = (await loadOpenApiContract(server)).callerFor(server.userToken);
});
after(() => server.dispose());

type Files = Record<string, string>;

const submit = async (payload: Record<string, unknown>, files?: Files) =>
  me.submit('tool' in payload ? '/jobs/hpc_two/' : '/jobs/hpc_one/', payload, files && (await createZip(files)));

describe('a missing start file is 400, and nothing is stored', () => {
  const readState = async () => [
    (await me.get('/jobs/')).text,
    (await me.get('/quotas/')).text,
    listStoredFiles(server),
  ];
  const script = '#!/bin/sh\ntrue\n';
  const cases: [what: string, payload: Record<string, unknown>, files: Files | undefined, message: RegExp][] = [
    [
      'a script that is not in the zip',
      { command: 'sbatch run.sh' },
      { 'other.sh': script, 'data/in.txt': 'x' },
      /^The zip lacks run\.sh, which the command starts\. It contains other\.sh, data\/in\.txt\. Add run\.sh/,
    ],
    [
      'a script in a folder that is not the only one',
      { command: 'sbatch ./run.sh' },
      { 'a/run.sh': script, 'b/c': 'x' },
      /lacks run\.sh.*a\/run\.sh, b\/c/,
    ],
    ['a script that is a folder', { command: 'sbatch run' }, { 'run/main.sh': script }, /lacks run,/],
    [
      'a script in a zip of many files',
      { command: 'sbatch run.sh' },
      Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`f${n}`, 'x'])),
      /It contains f0, f1, f2, f3, f4 and 4 more\./,
    ],
    ['a script in a zip without files', { command: 'sbatch run.sh' }, {}, /contains no files/],
    ['a script without a zip', { command: 'sbatch run.sh' }, undefined, /no zip.*run\.sh.*Send a zip/],
    ['the entry of BASH', { tool: 'BASH' }, { 'run.sh': script }, /lacks main\.sh, which the tool BASH reads.*run\.sh/],
    ['the entry of PYTHON3', { tool: 'PYTHON3' }, { 'main.sh': script }, /lacks main\.py, which the tool PYTHON3/],
    ['the entry of NODE, without a zip', { tool: 'NODE' }, undefined, /no zip.*main\.mjs/],
  ];
  for (const [what, payload, files, message] of cases) {
    test(what, async () => {
      const before = await readState();
      const problem = assertProblem(await submit(payload, files), { status: 400, code: 'start_file_missing', message });
      assert.deepEqual(
        problem.errors?.map(({ field }) => field),
        ['tool' in payload ? 'tool' : 'command'],
      );
      assert.deepEqual(await readState(), before);
    });
  }

  test('a script outside the zip is rejected before the body is read', async () => {
    for (const path of ['/etc/profile', '../run.sh']) {
      const response = await submit({ command: `sbatch ${path}` }, { 'run.sh': script });
      assertProblem(response, { status: 400, code: 'invalid_payload', message: /inside the zip|in the zip/ });
    }
  });
});

describe('a zip with one top folder, as file managers create it', () => {
  const metadata = { '__MACOSX/project/._in.txt': 'x', 'project/.DS_Store': 'x', '.DS_Store': 'x' };

  async function run(payload: Record<string, unknown>, files: Files): Promise<{ job: Job; output: string }> {
    const response = await submit(payload, files);
    assert.equal(response.status, 201, response.text);
    const job = await me.waitUntilFinished(response.body);
    return { job, output: readOutput(server, job) };
  }

  for (const [what, payload, files] of [
    ['a script', { command: 'sbatch run.sh' }, { 'project/run.sh': '#!/bin/sh\ncat in.txt\n' }],
    ['a tool', { tool: 'BASH' }, { 'project/main.sh': 'cat in.txt\n' }],
    ['a command', { command: 'cat in.txt' }, {}],
    ['a wrapped command', { command: 'sbatch --wrap="cat in.txt"' }, {}],
    ['a command that names the folder, at the top,', { command: 'cat project/in.txt' }, {}],
    [
      'a script that is named with the folder, at the top,',
      { command: 'sbatch project/run.sh' },
      { 'project/run.sh': '#!/bin/sh\ncat project/in.txt\n' },
    ],
  ] as const) {
    test(`${what} just works`, async () => {
      const { job, output } = await run(payload, { 'project/in.txt': 'inside\n', ...files, ...metadata });
      assert.deepEqual([job.failed, output], [false, 'inside\n']);
    });
  }

  test('starts the job inside the folder, and lists its files as they were unpacked', async () => {
    const { job } = await run({ command: 'echo made > out.txt' }, { 'project/in.txt': 'x' });
    const { body } = await me.get<{ path: string }[]>(`/files/hpc_one/${job.project_name}/${job.job_id}/`);
    assert.deepEqual(
      body.map(({ path }) => path),
      ['project/in.txt', 'project/out.txt'],
    );
  });

  test('a start file at the top wins over one in a folder', async () => {
    const files = { 'run.sh': '#!/bin/sh\necho top\n', 'project/run.sh': '#!/bin/sh\necho inside\n' };
    assert.equal((await run({ command: 'sbatch run.sh' }, files)).output, 'top\n');
  });
});
