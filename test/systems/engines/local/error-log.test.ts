import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createCaller } from '../../../support/api.ts';
import { startServer } from '../../../support/server.ts';
import { until } from '../../../support/until.ts';

test('a supervisor that cannot be started is in the log of the server', async () => {
  const server = await startServer({ engine: 'local' });
  try {
    await mkdir(join(server.data, 'engines', 'hpc_one.supervisor.log'));
    const client = createCaller(server.url, server.userToken);
    const { status, text } = await client.submit('/jobs/hpc_one/', { command: 'true' });
    assert.equal(status, 201);
    const findError = () => /.*"engine error, will retry".*/.exec(server.log())?.[0];
    const line = await until('the error is logged', findError);
    assert.ok(line.includes(`"error":"job ${JSON.parse(text).job_id}: EISDIR`), line);
  } finally {
    await server.dispose();
  }
});
