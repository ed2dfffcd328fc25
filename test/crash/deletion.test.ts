import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Job } from '../support/api.ts';
import { type Bench, openBench, place, shortGrace } from '../support/bench.ts';
import { filesOfJobs, inStage, pathOf } from '../support/jobs.ts';
import {
  assertBalanced,
  assertExplained,
  hasBegun,
  movementsOf,
  ranJob,
  stubborn,
  submitted,
} from '../support/ledger.ts';
import { until } from '../support/until.ts';

// DELETE, and the server ending or being killed around it.

const user = '301801';
let bench: Bench;

before(async () => {
  bench = await openBench({ ownProcess: true, spaceKb: 50_000, adjust: shortGrace });
});
after(() => bench.dispose());

const stateOf = async (job: Job) => {
  const [row] = await bench.rows<{ state: string; cancel_requested_at: number | null }>(
    'select state, cancel_requested_at from jobs where job_id = ?',
    job.job_id,
  );
  return row;
};

const manyFiles = 'for i in $(seq 40); do mkdir d$i; (cd d$i; seq 100 | xargs touch; echo $i > x); done';

async function assertGone(job: Job): Promise<void> {
  const me = await bench.user(user);
  const { stage, failed } = (await me.get<Job>(pathOf(job))).body;
  assert.deepEqual([stage, failed], ['DELETED', false]);
  const isThere = (name: string) => name.startsWith(job.job_id);
  await until('its files are swept away', () => !filesOfJobs(bench.server).some(isThere) || undefined);
  assert.equal((await me.quota(place.hpc, place.project)).space_left, 50_000);
  assert.equal((await movementsOf(me, job, 'space')).filter(({ kind }) => kind === 'free').length, 1);
  await assertExplained(me);
  await assertBalanced(bench.admin);
}

test('SIGKILL in the middle of a deletion: after the next start no file is left, and the space was freed once', async () => {
  const me = await bench.user(user);
  const job = await ranJob(me, { command: manyFiles });
  assert.equal(job.stage, 'SUCCESSFUL');
  const answer = me.send('DELETE', pathOf(job)).catch(() => undefined);
  await until('the books have the deletion', async () =>
    (await stateOf(job))?.state === 'deleted' ? true : undefined,
  );
  await bench.restart('SIGKILL');
  await answer;
  await assertGone(job);
});

test('SIGKILL right after the answer to a deletion: it is deleted for good', async () => {
  const me = await bench.user(user);
  const job = await ranJob(me, { command: manyFiles });
  assert.equal((await me.send('DELETE', pathOf(job))).status, 200);
  await bench.restart('SIGKILL');
  await assertGone(job);
});

test('a restart after a deletion brings nothing back, and deleting goes on being harmless', async () => {
  const me = await bench.user(user);
  const [job] = (await me.get<Job[]>('/jobs/')).body;
  assert.ok(job);
  const again = await me.send('DELETE', pathOf(job));
  assert.deepEqual([again.status, again.body], [200, job]);
  await assertGone(job);
  assert.deepEqual(readdirSync(join(bench.server.data, 'workspaces')), []);
});

test('SIGKILL while a job is being cancelled: the wish outlives the server, and is settled once', async () => {
  const me = await bench.user(user);
  const before = (await me.quota(place.hpc, place.project)).time_left;
  const job = await submitted(me, { command: `touch begun; ${stubborn}`, core_number: 2 });
  await hasBegun(bench, job);
  await inStage(me, job, 'RUNNING');
  const answer = me.send('DELETE', pathOf(job)).catch(() => undefined);
  await until('the wish is durable', async () =>
    (await stateOf(job))?.cancel_requested_at == null ? undefined : true,
  );
  await bench.restart('SIGKILL');
  await answer;

  const owner = await bench.user(user);
  const { stage, failed } = await owner.finished(job);
  assert.deepEqual([stage, failed], ['CANCELED', false]);
  const [, charged, ...more] = await movementsOf(owner, job);
  assert.deepEqual([charged?.kind, charged?.reason, more], ['charge', 'used: cancelled', []]);
  assert.equal((await owner.quota(place.hpc, place.project)).time_left, before - (charged?.used ?? Number.NaN));
  await assertBalanced(bench.admin);
});
