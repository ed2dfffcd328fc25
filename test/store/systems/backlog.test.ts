import assert from 'node:assert/strict';
import { test } from 'node:test';
import { msPerMinute } from '../../../src/domain/units.ts';
import { createGaugeUpdater } from '../../../src/services/systems/update-gauges.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { claimDueJob, postponeJob } from '../../../src/store/jobs/job-queue.ts';
import { storeManyJobs } from '../../support/many-jobs.ts';
import { openTestDatabase } from '../../support/test-database.ts';

test('a submission counts as stuck after 15 minutes, until its next try is due', async (t) => {
  const { db, close } = await openTestDatabase(['1'], 1000, 1000);
  t.after(close);
  await storeManyJobs(db, { owner: '1', hpc: 'sys', project: 'proj', count: 3 });
  await db.updateTable('jobs').set({ state: 'accepted' }).where('id', '=', 1).execute();
  await db.insertInto('systems').values({ hpc: 'sys', status: 'up', since: 0, detail: '' }).execute();

  /** The gauges at a time in minutes, without their names and the system. */
  async function readGauges(minutes: number): Promise<{ accepted: number; submitting: number; stuck: number }> {
    const values = new Map<string, number>();
    const setGauge = (name: string, labels: object, value: number) =>
      void values.set([name, ...Object.values(labels)].join(' '), value);
    await createGaugeUpdater({ db, metrics: { setGauge }, holder: '', now: () => minutes * msPerMinute })();
    const read = (name: string) => values.get(name) ?? assert.fail(`${name} is missing`);
    return {
      accepted: read('bursar_jobs sys accepted'),
      submitting: read('bursar_jobs sys submitting'),
      stuck: read('bursar_stuck_submissions sys'),
    };
  }

  assert.deepEqual(await readGauges(100), { accepted: 1, submitting: 0, stuck: 0 });
  const claim = { now: 100 * msPerMinute, excludedIds: [], onlyCancelled: false };
  const job = await inTransaction(db, (tx) => claimDueJob(tx, 'sys', '1', claim));
  assert.ok(job);
  assert.deepEqual(await readGauges(114), { accepted: 0, submitting: 1, stuck: 0 });
  assert.deepEqual(await readGauges(116), { accepted: 0, submitting: 1, stuck: 1 });
  await inTransaction(db, (tx) => postponeJob(tx, job, { dueAt: 0, hasReachedEngine: true }));
  assert.deepEqual(await readGauges(200), { accepted: 0, submitting: 1, stuck: 0 });
});
