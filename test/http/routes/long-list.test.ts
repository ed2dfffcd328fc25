import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { after, before, test } from 'node:test';
import { createCaller, type Job } from '../../support/api.ts';
import { queryDatabase, withDatabase } from '../../support/database.ts';
import { storeManyJobs } from '../../support/many-jobs.ts';
import { firstUsers, startServer, type TestServer } from '../../support/server.ts';

/** Several times what the buffers of a connection hold. */
const jobs = 30_000;
let server: TestServer;

before(async () => {
  server = await startServer();
  // The first request makes the user a member.
  await createCaller(server.url, server.userToken).get('/quotas/');
  const place = { owner: firstUsers.user, hpc: 'hpc_one', project: 'proj_hpc_one_01' };
  await withDatabase(server.data, (db) => storeManyJobs(db, { ...place, count: jobs }));
});
after(() => server.dispose());

async function send(path: string, method = 'GET'): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${server.userToken}` };
  const sent = request(server.url + path, { method, headers }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  assert.equal(response.statusCode, 200);
  return response;
}

async function countBytes(response: IncomingMessage): Promise<number> {
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) bytes += chunk.length;
  return bytes;
}

test('a long list is complete and valid', async () => {
  const { body } = await createCaller(server.url, server.userToken).get<Job[]>('/jobs/');
  assert.equal(body.length, jobs);
  assert.equal(new Set(body.map((job) => job.id)).size, jobs);
});

test('a list that fails half-way aborts the connection, so that it cannot be mistaken for a complete one', async () => {
  const rename = (from: string, to: string) => queryDatabase(server.data, `alter table ${from} rename to ${to}`, []);
  const response = await send('/jobs/?failed=false');
  try {
    // Nothing was read yet, so most of the list has not been sent.
    await rename('jobs', 'gone');
    await assert.rejects(countBytes(response), /aborted|ECONNRESET|terminated/);
  } finally {
    await rename('gone', 'jobs');
  }
});

test('HEAD of a long list has no body', async () => {
  assert.equal(await countBytes(await send('/jobs/', 'HEAD')), 0);
});
