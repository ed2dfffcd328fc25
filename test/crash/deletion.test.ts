import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Job } from '../support/api.ts';
import { type Bench, openBench, place, shortGrace } from '../support/bench.ts';
import { jobPath, listStoredFiles, waitForStage } from '../support/jobs.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  ignoresTermScript,
  listJobMovements,
  runJob,
  submitJob,
  waitUntilBegun,
} from '../support/ledger.ts';
import { until } from '../support/until.ts';

const user = '301801';
let bench: Bench;

before(async () => {
  bench = await openBench({ ownProcess: true, spaceKb: 50_000, adjust: shortGrace });
});
after(() => bench.dispose());

const readState = async (job: Job) => {
  const [row] = await bench.rows<{ state: string; cancel_requested_at: number | null }>(
    'select state, cancel_requested_at from jobs where job_id = ?',
    job.job_id,
  );
  return row;
};

const createManyFiles = 'for i in $(seq 40); do mkdir d$i; (cd d$i; seq 100 | xargs touch; echo $i > x); done';

async function assertDeleted(job: Job): Promise<void> {
  const me = await bench.user(user);
  const { stage, failed } = (await me.get<Job>(jobPath(job))).body;
  assert.deepEqual([stage, failed], ['DELETED', false]);
  const belongsToJob = (name: string) => name.startsWith(job.job_id);
  await until('its files are removed', () => !listStoredFiles(bench.server).some(belongsToJob) || undefined);
  assert.equal((await me.quota(place.hpc, place.project)).space_left, 50_000);
  assert.equal((await listJobMovements(me, job, 'space')).filter(({ kind }) => kind === 'free').length, 1);
  await assertStatementAddsUp(me);
  await assertLedgerBalances(bench.admin);
}

test('SIGKILL during a deletion: the next start removes the remaining files, and the space is freed once', async () => {
  const me = await bench.user(user);
  const job = await runJob(me, { command: createManyFiles });
  assert.equal(job.stage, 'SUCCESSFUL');
  const response = me.send('DELETE', jobPath(job)).catch(() => undefined);
  await until('the deletion is stored', async () => ((await readState(job))?.state === 'deleted' ? true : undefined));
  await bench.restart('SIGKILL');
  await response;
  await assertDeleted(job);
});

test('SIGKILL right after the response to a deletion: the job stays deleted', async () => {
  const me = await bench.user(user);
  const job = await runJob(me, { command: createManyFiles });
  assert.equal((await me.send('DELETE', jobPath(job))).status, 200);
  await bench.restart('SIGKILL');
  await assertDeleted(job);
});

test('after a restart a deleted job has no files, and deleting it again succeeds', async () => {
  const me = await bench.user(user);
  const [job] = (await me.get<Job[]>('/jobs/')).body;
  assert.ok(job);
  const repeated = await me.send('DELETE', jobPath(job));
  assert.deepEqual([repeated.status, repeated.body], [200, job]);
  await assertDeleted(job);
  assert.deepEqual(readdirSync(join(bench.server.data, 'workspaces')), []);
});

test('SIGKILL during a cancellation: the request survives the restart, and the job is settled once', async () => {
  const me = await bench.user(user);
  const before = (await me.quota(place.hpc, place.project)).time_left;
  const job = await submitJob(me, { command: `touch begun; ${ignoresTermScript}`, core_number: 2 });
  await waitUntilBegun(bench, job);
  await waitForStage(me, job, 'RUNNING');
  const response = me.send('DELETE', jobPath(job)).catch(() => undefined);
  await until('the cancellation request is stored', async () =>
    (await readState(job))?.cancel_requested_at == null ? undefined : true,
  );
  await bench.restart('SIGKILL');
  await response;

  const owner = await bench.user(user);
  const { stage, failed } = await owner.finished(job);
  assert.deepEqual([stage, failed], ['CANCELED', false]);
  const [, charged, ...more] = await listJobMovements(owner, job);
  assert.deepEqual([charged?.kind, charged?.reason, more], ['charge', 'used: cancelled', []]);
  assert.equal((await owner.quota(place.hpc, place.project)).time_left, before - (charged?.used ?? Number.NaN));
  await assertLedgerBalances(bench.admin);
});
