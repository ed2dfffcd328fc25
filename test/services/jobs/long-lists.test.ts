import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { toHpcSystems } from '../../../src/config/hpc-systems.ts';
import { listJobs } from '../../../src/services/jobs/read-jobs.ts';
import type { Job } from '../../support/api.ts';
import { storeManyJobs } from '../../support/many-jobs.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

const count = 2100;
let database: TestDatabase;

before(async () => {
  database = await openTestDatabase(['1'], 1000, 1000);
  await storeManyJobs(database.db, { owner: '1', hpc: 'sys', project: 'proj', count });
});
after(() => database.close());

test('other work gets its turn between any two chunks of a long list', async () => {
  const systems = toHpcSystems(database.config);
  const deps = { db: database.db, systems };
  const body = await (await listJobs(deps, '1', {}, {})).body();
  assert.ok('chunks' in body);
  let turns = 0;
  let timer = setImmediate(function countTurn() {
    turns++;
    timer = setImmediate(countTurn);
  });
  const turnsAtChunks: number[] = [];
  let text = '';
  for await (const chunk of body.chunks) {
    text += chunk;
    if (chunk !== ']') turnsAtChunks.push(turns);
  }
  clearImmediate(timer);
  assert.equal((JSON.parse(text) as Job[]).length, count);
  assert.ok(turnsAtChunks.length > 5);
  assert.equal(new Set(turnsAtChunks).size, turnsAtChunks.length, `turns of the event loop: ${turnsAtChunks}`);
});
