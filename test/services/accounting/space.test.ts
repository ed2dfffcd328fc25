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

// What jobs do to the space of an account: from their zip until their files are deleted.

const granted = 100_000;
const grantedKb = 1000;
let fixture: AccountingFixture;

before(async () => {
  fixture = await openAccountingFixture({
    timeSeconds: granted,
    spaceKb: grantedKb,
    // Less than some jobs write into files: that is no output.
    adjust: ({ systems }) => {
      for (const { engine } of Object.values(systems)) engine.outputKb = 10;
    },
  });
});
after(async () => {
  await assertLedgerBalances(fixture.admin);
  await fixture.dispose();
});

describe('space', () => {
  const sizeOf = (job: Job) =>
    readdirSync(join(fixture.server.data, 'workspaces', job.job_id), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);

  test('is held as the zip is large when unpacked, posted as the workspace is at the end, freed once', async () => {
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
    const used = sizeOf(job) / 1000;
    assert.ok(used > 8);
    assert.equal((await getQuota(me)).space_left, grantedKb - used);

    for (let i = 0; i < 3; i++) {
      assert.equal((await me.send('DELETE', jobPath(job))).status, 200);
      assert.equal((await getQuota(me)).space_left, grantedKb);
    }
    const moves = (await listJobMovements(me, job, 'space')).map(({ kind, change, used }) => [kind, change, used]);
    const held = unpacked / 1000;
    assert.deepEqual(moves, [
      ['reserve', -held, 0],
      ['charge', Number((held - used).toFixed(3)), used],
      ['free', used, -used],
    ]);
  });

  test('is freed once, however many deletions come at the same time', async () => {
    const me = await fixture.user('301642');
    const kept = await runJob(me, { command: 'head -c 70000 /dev/zero > kept.bin' });
    const gone = await runJob(me, { command: 'mkdir d; for i in 1 2 3 4 5 6 7 8 9; do echo $i > d/$i; done' });
    const answers = await Promise.all(Array.from({ length: 20 }, () => me.send('DELETE', jobPath(gone))));
    for (const { status, text } of answers) assert.equal(status, 200, text);
    assert.equal((await getQuota(me)).space_left, grantedKb - sizeOf(kept) / 1000);
    assert.equal((await listJobMovements(me, gone, 'space')).filter(({ kind }) => kind === 'free').length, 1);
  });

  test('beyond the quota is recorded, blocks new jobs, and is there again after a deletion', async () => {
    const me = await fixture.user('301643');
    await withdrawDownTo(fixture.admin, '301643', { space: 1 });
    const job = await runJob(me, { command: 'head -c 5000 /dev/zero > out.bin' });
    assert.equal((await getQuota(me)).space_left, 0);
    assert.equal((await getStatement(me)).space.closing_balance, 1 - sizeOf(job) / 1000);
    const zip = await createZip({ 'in.txt': 'x' });
    for (const body of [zip, undefined]) {
      assertQuotaExceeded(await me.submit(`/jobs/${defaultProjectPath}/`, { command: 'true' }, body), {
        resource: 'space',
        available: 0,
      });
    }
    const { settled } = await getSettlement(me, job);
    assert.equal((await getQuota(me)).time_left, granted - settled.used, 'a refusal for space holds no time');
    await me.send('DELETE', jobPath(job));
    assert.equal((await getQuota(me)).space_left, 1);
    await submitJob(me, { command: 'true' }, zip);
    await until('it has ended', async () =>
      (await me.get<Job[]>('/jobs/')).body.every(({ terminal_stage }) => terminal_stage) ? true : undefined,
    );
    await assertStatementAddsUp(me);
  });

  test('and time stay apart: a job without files takes the space of its output alone', async () => {
    const me = await fixture.user('301644');
    const job = await runJob(me, { command: 'printf 12345' });
    assert.equal((await getQuota(me)).space_left, grantedKb - 5 / 1000);
    await me.send('DELETE', jobPath(job));
    assert.equal((await getQuota(me)).space_left, grantedKb);
  });
});
