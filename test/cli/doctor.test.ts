import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../files/temporary.ts';
import { bursar } from '../support/command-line.ts';
import { spawnServer } from '../support/server-process.ts';

test('bursar doctor: the shipped configuration is well, beside a server that is running', async (t) => {
  const server = await spawnServer();
  t.after(() => server.dispose());
  const { code, stdout, stderr } = await bursar(['doctor'], { BURSAR_DATA: server.data });
  assert.deepEqual([code, stderr], [0, '']);
  for (const system of ['hpc_one', 'hpc_two']) {
    assert.match(
      stdout,
      new RegExp(`${system}\n  ✔ a workspace can be made on this host: .*\n  ✔ a canary job runs: it ran for`),
    );
  }
  assert.match(stdout, /^bursar\n {2}✔ the books can be opened and written: /);
  const workspaces = join(server.data, 'workspaces');
  assert.deepEqual(existsSync(workspaces) ? readdirSync(workspaces) : [], []);
});

test('bursar doctor: books that cannot be written are a fault with its fix', async (t) => {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'file'), '');
  const { code, stdout } = await bursar(['doctor', '--no-canary'], { BURSAR_DATA: join(folder, 'file', 'data') });
  assert.equal(code, 1);
  assert.match(stdout, /✖ the books can be opened and written: .*\n {6}→ Give the user that Bursar runs as the right/);
});

test('bursar doctor: what is asked in a wrong way is refused by its exit code', async (t) => {
  const data = await temporaryFolder(t);
  const unknown = await bursar(['doctor', '--system', 'hpc_nine'], { BURSAR_DATA: data });
  assert.deepEqual([unknown.code, unknown.stdout], [4, '']);
  assert.match(unknown.stderr, /no system hpc_nine/);
  for (const patience of ['0', 'long', '-5']) {
    const { code, stderr } = await bursar(['doctor', `--patience=${patience}`], { BURSAR_DATA: data });
    assert.deepEqual([code, /whole number of seconds/.test(stderr)], [2, true]);
  }
});
