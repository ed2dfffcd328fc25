import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, defaultProjectPath, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { Job } from '../../support/api.ts';
import { jobPath, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertQuotaExceeded,
  assertStatementAddsUp,
  getQuota,
  getSettlement,
  getStatement,
  listJobMovements,
  runJob,
  submitJob,
  withdrawDownTo,
} from '../../support/ledger.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

// Space accounting of a job, from its zip to the deletion of its files.

const granted = 100_000;
const grantedKb = 1000;
let fixture: AccountingFixture;

before(async () => {
  fixture = await openAccountingFixture({
    timeSeconds: granted,
    spaceKb: grantedKb,
    // Less than some jobs write to files, which do not count as output.
    adjust: ({ systems }) => {
      for (const { engine } of Object.values(systems)) engine.outputKb = 10;
    },
  });
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

describe('the space of a job', () => {
  const workspaceBytes = (job: Job) =>
    readdirSync(join(fixture.server.data, 'workspaces', job.job_id), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);

  test('is held by the unpacked size of the zip, charged by the size of the workspace at the end, and freed once', async () => {
    const me = await fixture.user('301641');
    const files = {
      'run.sh': `#!/bin/sh\n${waitForGoScript}\nhead -c 3456 /dev/zero > out.bin\n`,
      'in.bin': 'x'.repeat(5000),
    };
    const job = await submitJob(me, { command: 'sbatch run.sh' }, await createZip(files));
    const unpacked = files['run.sh'].length + files['in.bin'].length;
    assert.equal((await getQuota(me)).space_left, grantedKb - unpacked / 1000);
    await waitForStage(me, job, 'RUNNING');
    releaseJob(fixture.server, job);
    await me.waitUntilFinished(job);
    const used = workspaceBytes(job) / 1000;
    assert.ok(used > 8);
    assert.equal((await getQuota(me)).space_left, grantedKb - used);

    for (let i = 0; i < 3; i++) {
      assert.equal((await me.send('DELETE', jobPath(job))).status, 200);
      assert.equal((await getQuota(me)).space_left, grantedKb);
    }
    const movements = (await listJobMovements(me, job, 'space')).map(({ kind, change, used }) => [kind, change, used]);
    const held = unpacked / 1000;
    assert.deepEqual(movements, [
      ['reserve', -held, 0],
      ['release', held, 0],
      ['charge', -used, used],
      ['free', used, -used],
    ]);
  });

  test('is freed once by concurrent deletions', async () => {
    const me = await fixture.user('301642');
    const kept = await runJob(me, { command: 'head -c 70000 /dev/zero > kept.bin' });
    const deleted = await runJob(me, { command: 'mkdir d; for i in 1 2 3 4 5 6 7 8 9; do echo $i > d/$i; done' });
    const responses = await Promise.all(Array.from({ length: 20 }, () => me.send('DELETE', jobPath(deleted))));
    for (const { status, text } of responses) assert.equal(status, 200, text);
    assert.equal((await getQuota(me)).space_left, grantedKb - workspaceBytes(kept) / 1000);
    assert.equal((await listJobMovements(me, deleted, 'space')).filter(({ kind }) => kind === 'free').length, 1);
  });

  test('above the quota is charged, blocks new jobs, and is available again after a deletion', async () => {
    const me = await fixture.user('301643');
    await withdrawDownTo(fixture.admin, '301643', { space: 1 });
    const job = await runJob(me, { command: 'head -c 5000 /dev/zero > out.bin' });
    assert.equal((await getQuota(me)).space_left, 0);
    assert.equal((await getStatement(me)).space.closing_balance, 1 - workspaceBytes(job) / 1000);
    const zip = await createZip({ 'in.txt': 'x' });
    for (const body of [zip, undefined]) {
      assertQuotaExceeded(await me.submit(`/jobs/${defaultProjectPath}/`, { command: 'true' }, body), {
        resource: 'space',
        available: 0,
      });
    }
    const { settled } = await getSettlement(me, job);
    assert.equal(
      (await getQuota(me)).time_left,
      granted - settled.used,
      'a submission rejected for space holds no time',
    );
    await me.send('DELETE', jobPath(job));
    assert.equal((await getQuota(me)).space_left, 1);
    await submitJob(me, { command: 'true' }, zip);
    await until('the job has ended', async () =>
      (await me.get<Job[]>('/jobs/')).body.every(({ terminal_stage }) => terminal_stage) ? true : undefined,
    );
    await assertStatementAddsUp(me);
  });

  test('without files is the size of its output', async () => {
    const me = await fixture.user('301644');
    const job = await runJob(me, { command: 'printf 12345' });
    assert.equal((await getQuota(me)).space_left, grantedKb - 5 / 1000);
    await me.send('DELETE', jobPath(job));
    assert.equal((await getQuota(me)).space_left, grantedKb);
  });
});
