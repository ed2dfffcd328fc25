import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import {
  type AccountingFixture,
  defaultProject,
  openAccountingFixture,
  setShortKillGrace,
} from '../../support/accounting-fixture.ts';
import type { Job } from '../../support/api.ts';
import { jobPath, listStoredFiles, requestCancel, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  ignoresTermScript,
  listJobMovements,
  runJob,
  submitJob,
  waitUntilBegun,
} from '../../support/ledger.ts';
import { until } from '../../support/until.ts';

const user = '301801';
let fixture: AccountingFixture;

before(async () => {
  fixture = await openAccountingFixture({ ownProcess: true, spaceKb: 50_000, adjust: setShortKillGrace });
});
after(() => fixture.dispose());

const readState = async (job: Job) => {
  const [row] = await fixture.query<{ state: string; cancel_requested_at: number | null }>(
    'select state, cancel_requested_at from jobs where job_id = ?',
    job.job_id,
  );
  return row;
};

const createManyFiles = 'for i in $(seq 40); do mkdir d$i; (cd d$i; seq 100 | xargs touch; echo $i > x); done';

async function assertDeleted(job: Job): Promise<void> {
  const me = await fixture.user(user);
  const { stage, failed } = (await me.get<Job>(jobPath(job))).body;
  assert.deepEqual([stage, failed], ['DELETED', false]);
  const belongsToJob = (name: string) => name.startsWith(job.job_id);
  await until('its files are removed', () => !listStoredFiles(fixture.server).some(belongsToJob) || undefined);
  assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).space_left, 50_000);
  assert.equal((await listJobMovements(me, job, 'space')).filter(({ kind }) => kind === 'free').length, 1);
  await assertStatementAddsUp(me);
  await assertLedgerBalances(fixture.server);
}

test('SIGKILL during a deletion: the next start removes the remaining files, and the space is freed once', async () => {
  const me = await fixture.user(user);
  const job = await runJob(me, { command: createManyFiles });
  assert.equal(job.stage, 'SUCCESSFUL');
  const response = me.send('DELETE', jobPath(job)).catch(() => undefined);
  await until('the deletion is stored', async () => ((await readState(job))?.state === 'deleted' ? true : undefined));
  await fixture.restart('SIGKILL');
  await response;
  await assertDeleted(job);
});

test('after a restart a deleted job has no files, and deleting it again succeeds', async () => {
  const me = await fixture.user(user);
  const [job] = (await me.get<Job[]>('/jobs/')).body;
  assert.ok(job);
  const repeated = await me.send('DELETE', jobPath(job));
  assert.deepEqual([repeated.status, repeated.body], [200, job]);
  await assertDeleted(job);
  assert.deepEqual(readdirSync(join(fixture.server.data, 'workspaces')), []);
});

test('SIGKILL during a cancellation: the request survives the restart, and the job is settled once', async () => {
  const me = await fixture.user(user);
  const before = (await me.quota(defaultProject.hpc, defaultProject.project)).time_left;
  const job = await submitJob(me, { command: `touch begun; ${ignoresTermScript}`, core_number: 2 });
  await waitUntilBegun(fixture, job);
  await waitForStage(me, job, 'RUNNING');
  assert.equal((await requestCancel(me, job)).status, 202);
  assert.ok((await readState(job))?.cancel_requested_at, 'the request is durable when it is answered');
  await fixture.restart('SIGKILL');

  const owner = await fixture.user(user);
  const { stage, failed } = await owner.waitUntilFinished(job);
  assert.deepEqual([stage, failed], ['CANCELED', false]);
  const [, , charged, ...more] = await listJobMovements(owner, job);
  assert.deepEqual([charged?.kind, charged?.reason, more], ['charge', 'used: cancelled', []]);
  assert.equal(
    (await owner.quota(defaultProject.hpc, defaultProject.project)).time_left,
    before - (charged?.used ?? Number.NaN),
  );
  await assertLedgerBalances(fixture.server);
});
