import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCaller } from '../../../support/api.ts';
import { runFile } from '../../../support/command-line.ts';
import { withDatabase } from '../../../support/database.ts';
import { storeManyJobs } from '../../../support/many-jobs.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';

const jobs = 100_000;
const mostMoreBytes = 64_000_000;
let server: ServerProcess;

before(async () => {
  server = await spawnServer();
  const [me] = (await createCaller(server.url, server.userToken).get<{ user: string }[]>('/quotas/')).body;
  const place = { owner: me?.user ?? '', hpc: 'hpc_one', project: 'proj_hpc_one_01' };
  await withDatabase(server.data, (db) => storeManyJobs(db, { ...place, count: jobs }));
});
after(() => server.dispose());

/** Returns the resident memory of the server, in bytes. */
async function memory(): Promise<number> {
  const { pid = 0 } = server.process;
  if (process.platform !== 'linux') return Number((await runFile('ps', ['-o', 'rss=', '-p', `${pid}`])).stdout) * 1024;
  const [, kb] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kb) * 1024;
}

/** Reads and discards the list, with pauses. Returns its length, its last byte and the largest memory of the server. */
async function read(pauseMs: number) {
  const authorization = `Bearer ${server.userToken}`;
  const sent = request(`${server.url}/jobs/`, { headers: { authorization } }).end();
  const [response] = (await once(sent)) as [import('node:http').IncomingMessage];
  let bytes = 0;
  let most = await memory();
  let chunks = 0;
  let end = '';
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    end = chunk.toString().slice(-1);
    chunks += 1;
    if (chunks % 50 === 0) {
      most = Math.max(most, await memory());
      if (pauseMs > 0) await sleep(pauseMs);
    }
  }
  return { bytes, end, most: Math.max(most, await memory()) };
}

const once = (sent: ReturnType<typeof request>) =>
  new Promise((resolve, reject) => sent.once('response', (response) => resolve([response])).once('error', reject));

test('a list of 100,000 jobs takes at most 64 MB of memory, for fast and slow readers', async () => {
  const before = await memory();
  for (const pauseMs of [0, 20, 0]) {
    const { bytes, end, most } = await read(pauseMs);
    assert.ok(bytes > jobs * 200);
    assert.equal(end, ']');
    assert.ok(most - before <= mostMoreBytes, `${Math.round((most - before) / 1e6)} MB more`);
  }
});

test('several concurrent readers, one of which disconnects, do not multiply the memory', async () => {
  const before = await memory();
  const gone = fetch(`${server.url}/jobs/`, { headers: { authorization: `Bearer ${server.userToken}` } });
  await (await gone).body?.cancel();
  const all = await Promise.all([read(5), read(5), read(5), read(0)]);
  for (const { most, end } of all) {
    assert.equal(end, ']');
    assert.ok(most - before <= mostMoreBytes, `${Math.round((most - before) / 1e6)} MB more`);
  }
});
