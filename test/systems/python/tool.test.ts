import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Caller, createCaller } from '../../support/api.ts';
import { readOutput } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { createZip } from '../../support/zip.ts';

// The tool PYTHON3 of the shipped configuration. The others are tested in test/http/contract/bodies.test.ts.

let server: TestServer;
let me: Caller;

before(async () => {
  server = await startServer();
  me = createCaller(server.url, server.userToken);
});
after(() => server.dispose());

async function run(payload: Record<string, unknown>, files: Record<string, string>): Promise<string> {
  const response = await me.submit('/jobs/hpc_two/', { tool: 'PYTHON3', ...payload }, await createZip(files));
  assert.equal(response.status, 201, response.text);
  const job = await me.waitUntilFinished(response.body);
  assert.equal(job.stage, 'COMPLETED');
  return readOutput(server, job, 'stdout');
}

test('4.2 tool: PYTHON3 runs main.py of the zip, in the folder of the zip', async () => {
  const script = 'print(open("data/in.txt").read(), end="")\n';
  assert.equal(await run({}, { 'main.py': script, 'data/in.txt': 'content\n' }), 'content\n');
});

test('4.2 tool: PYTHON3 gets the words of "arguments", each as a separate argument', async () => {
  const script = 'import sys\nprint("".join(f"<{a}>" for a in sys.argv[1:]), end="")\n';
  assert.equal(
    await run({ arguments: '--steps 3 "two words" $HOME; -c' }, { 'main.py': script }),
    '<--steps><3><two words><$HOME;><-c>',
  );
  assert.equal(await run({ arguments: ["it's", '*'] }, { 'main.py': script }), "<it's><*>");
});
