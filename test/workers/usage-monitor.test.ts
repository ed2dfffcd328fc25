import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, openAccountingFixture } from '../support/accounting-fixture.ts';
import type { Caller, Job } from '../support/api.ts';
import { jobPath, releaseJob, submitShellLine, waitForGoScript, waitForStage } from '../support/jobs.ts';
import { assertLedgerBalances } from '../support/ledger.ts';

const maxFiles = 100;

interface Timeline {
  outcome: string;
  reason: string;
  charged: number;
}

describe('the files of running jobs', () => {
  let fixture: AccountingFixture;
  before(async () => {
    fixture = await openAccountingFixture({
      spaceKb: 1000,
      adjust: (config) => {
        Object.assign(config, { submissions: { maxEntries: 50 } });
        for (const system of Object.values(config.systems)) {
          system.measureSeconds = 0.1;
          system.limits.files = maxFiles;
          system.engine.cores = 4;
        }
      },
    });
  });
  after(() => fixture.dispose());

  const submit = async (me: Caller, line: string): Promise<Job> =>
    (await submitShellLine(me, '/jobs/hpc_one/', line)).body;
  const endOf = async (me: Caller, job: Job): Promise<Timeline> => {
    await me.waitUntilFinished(job);
    const [row] = await fixture.query<Timeline>(
      'select outcome, jobs.reason, resolutions.time_seconds as charged from jobs join holds on holds.job = jobs.id ' +
        'join resolutions on hold_id = holds.id where job_id = ?',
      job.job_id,
    );
    assert.ok(row);
    return row;
  };

  test('a job whose files take more than the quota has left is ended, and pays for its time; others go on', async () => {
    const me = await fixture.user('421');
    const small = await submit(me, `head -c 500000 /dev/zero > data; ${waitForGoScript}`);
    await waitForStage(me, small, 'RUNNING');
    const large = await submit(me, 'truncate -s 20M big; sleep 600');
    const end = await endOf(me, large);
    assert.equal(end.outcome, 'output_exceeded');
    assert.equal(end.reason, 'its files took more space than the quota has left');
    assert.ok(end.charged > 0);
    assert.equal((await me.send('DELETE', jobPath(large))).status, 200);
    releaseJob(fixture.server, small);
    assert.equal((await endOf(me, small)).outcome, 'succeeded');
  });

  test('a job that creates too many files is ended', async () => {
    const me = await fixture.user('422');
    const end = await endOf(me, await submit(me, `for i in $(seq ${2 * maxFiles}); do : > f$i; done; sleep 600`));
    assert.equal(end.outcome, 'output_exceeded');
    assert.equal(end.reason, 'it created more files and folders than allowed');
  });

  test('a job that has left too many files has failed, whenever it was measured; its folders cannot be listed', async () => {
    const me = await fixture.user('423');
    const job = await submit(me, `mkdir d; for i in $(seq ${maxFiles}); do ln -s x d/l$i; done; echo one > file`);
    const end = await endOf(me, job);
    assert.equal(end.outcome, 'output_exceeded');
    const filesPath = jobPath(job).replace('/jobs/', '/files/');
    const listed = await me.get<{ code: string }>(filesPath);
    assert.deepEqual([listed.status, listed.body.code], [409, 'too_many_files']);
    const single = await (await fixture.uncheckedUser('423')).get(`${filesPath}file`);
    assert.deepEqual([single.status, single.text], [200, 'one\n']);
  });

  test('the ledger balances', async () => {
    await assertLedgerBalances(fixture.admin);
  });
});
