import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createCaller, type Job } from '../../support/api.ts';
import { assertProblem } from '../../support/problems.ts';
import { spawnServer } from '../../support/server-process.ts';

const env = { BURSAR_DATABASE_URL: 'sqlite:bursar.db' };

/** Lets the next fsync in the main thread of a process fail, in which SQLite runs. */
async function failNextSync(pid: number | undefined) {
  const inject = 'inject=fsync,fdatasync:error=EIO:when=1';
  const args = ['-p', String(pid), '-e', 'trace=fsync,fdatasync', '-e', inject];
  const strace = spawn('strace', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  while (!output.includes('attached')) {
    const [text] = (await Promise.race([once(strace.stderr, 'data'), once(strace.stderr, 'end')])) as [Buffer?];
    if (text === undefined) throw new Error(`strace cannot attach: ${output}`);
    output += text;
  }
  strace.stderr.on('data', (text) => {
    output += text;
  });
  return { output: () => output, stop: () => strace.kill('SIGKILL') };
}

test('a job that was refused because of a failed fsync does not come back after a crash', async () => {
  const data = mkdtempSync(join(tmpdir(), 'bursar-fsync-'));
  let server = await spawnServer({ data, env });
  const { userToken, adminToken } = server;
  try {
    const before = await createCaller(server.url, userToken).get('/quotas/');
    const strace = await failNextSync(server.process.pid);
    const payload = { command: 'true', runtime: 0.1, title: 'refused' };
    const response = await createCaller(server.url, userToken).submit('/jobs/hpc_one/', payload);
    strace.stop();
    assert.match(strace.output(), /EIO .*INJECTED/);
    assertProblem(response, { status: 503, code: 'database_unavailable', message: /IOERR_FSYNC.*Try again/ });
    // SQLite reads the whole file again at the next start, also what was written but not synced.
    await server.kill();

    server = await spawnServer({ data, env });
    const me = createCaller(server.url, userToken);
    assert.deepEqual((await me.get<Job[]>('/jobs/')).body, []);
    assert.equal((await me.get('/quotas/')).text, before.text);
    const proof = await createCaller(server.url, adminToken).get<{ balanced: boolean }>('/admin/ledger/proof/');
    assert.equal(proof.body.balanced, true);
    assert.equal((await me.submit('/jobs/hpc_one/', payload)).status, 201);
  } finally {
    await server.stop();
    rmSync(data, { recursive: true, force: true });
  }
});
