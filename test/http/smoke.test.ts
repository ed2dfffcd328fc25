import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { callerOf } from '../support/api.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;
before(async () => {
  server = await startServer();
});
after(() => server.dispose());

test('a job goes from submission to its end', async () => {
  const me = callerOf(server.url, server.userToken);
  const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'echo hi' });
  assert.equal(status, 201);
  assert.equal((await me.finished(body)).stage, 'SUCCESSFUL');
});
