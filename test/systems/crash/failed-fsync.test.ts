import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createCaller, type Job } from '../../support/api.ts';
import { removeDataFolder } from '../../support/data-folder.ts';
import { assertProblem } from '../../support/problems.ts';
import { spawnServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';

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
    const user = createCaller(server.url, userToken);
    const before = await user.get('/quotas/');
    // Both are stored by themselves, and the fault must hit the submission.
    await until('the use of the token and the first state of the systems are stored', async () => {
      const tokens = (await user.get<{ last_used_on: string | null }[]>('/me/tokens/')).body;
      const systems = (await user.get<{ detail: string }[]>('/hpc/')).body;
      const isStored =
        tokens.some((token) => token.last_used_on !== null) &&
        systems.every(({ detail }) => detail !== 'not checked yet');
      return isStored || undefined;
    });
    const strace = await failNextSync(server.process.pid);
    const payload = { command: 'true', runtime: 0.1, title: 'refused' };
    const response = await user.submit('/jobs/hpc_one/', payload);
    strace.stop();
    assert.match(strace.output(), /EIO .*INJECTED/);
    assertProblem(response, { status: 503, code: 'database_unavailable', message: /IOERR_FSYNC.*Try again/ });
    // SQLite reads the whole file again at the next start, also what was written but not synced.
    await server.kill();

    server = await spawnServer({ data, env });
    const me = createCaller(server.url, userToken);
    assert.deepEqual((await me.get<Job[]>('/jobs/')).body, []);
    assert.equal((await me.get('/quotas/')).text, before.text);
    const proof = await createCaller(server.url, adminToken).get<{ balanced: boolean }>('/admin/ledger/verification/');
    assert.equal(proof.body.balanced, true);
    const accepted = await me.submit('/jobs/hpc_one/', payload);
    assert.equal(accepted.status, 201);
    await me.waitUntilFinished(accepted.body);
  } finally {
    await server.stop();
    await removeDataFolder(data);
  }
});
