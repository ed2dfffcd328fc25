import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../files/temporary.ts';
import { bursarProcess } from '../../support/command-line.ts';
import { spawnServer } from '../../support/server-process.ts';

test('bursar doctor passes all checks of the shipped configuration while a server is running', async (t) => {
  const server = await spawnServer();
  t.after(() => server.dispose());
  const { code, stdout, stderr } = await bursarProcess(['doctor'], { BURSAR_DATA: server.data });
  assert.deepEqual([code, stderr], [0, '']);
  for (const system of ['hpc_one', 'hpc_two']) {
    assert.match(
      stdout,
      new RegExp(
        `${system}\n  ✔ a workspace can be created on this host: .*\n  ✔ a canary job runs: it ran for .*\n  ✔ jobs are isolated: a job could not reach`,
      ),
    );
  }
  assert.ok(
    stdout.startsWith(`bursar\n  ✔ the database can be opened and written: ${join(server.data, 'bursar.db')}\n`),
    stdout,
  );
  const workspaces = join(server.data, 'workspaces');
  assert.deepEqual(existsSync(workspaces) ? readdirSync(workspaces) : [], []);
});

test('bursar doctor reports a database that cannot be written, with a fix', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'file'), '');
  const { code, stdout } = await bursarProcess(['doctor', '--no-canary'], {
    BURSAR_DATA: join(folder, 'file', 'data'),
  });
  assert.equal(code, 1);
  assert.match(
    stdout,
    /✖ the database can be opened and written: .*\n {6}→ Give the user that Bursar runs as write permission/,
  );
});

test('bursar doctor rejects an unknown system and an invalid --timeout with their exit codes', async (t) => {
  const data = await temporaryFolder(t);
  const unknown = await bursarProcess(['doctor', '--system', 'hpc_nine'], { BURSAR_DATA: data });
  assert.deepEqual([unknown.code, unknown.stdout], [4, '']);
  assert.match(unknown.stderr, /no system hpc_nine .*Use one of: hpc_one, hpc_two/);
  for (const timeout of ['0', 'long', '-5']) {
    const { code, stderr } = await bursarProcess(['doctor', `--timeout=${timeout}`], { BURSAR_DATA: data });
    assert.deepEqual([code, /whole number of seconds/.test(stderr)], [2, true]);
  }
});
