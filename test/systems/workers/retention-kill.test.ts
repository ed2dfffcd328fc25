import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Job } from '../../support/api.ts';
import { assertLedgerBalances } from '../../support/ledger.ts';
import { isLongRun } from '../../support/long-run.ts';
import { until } from '../../support/until.ts';
import { openRetentionFixture, type RetentionFixture, retentionDays } from '../../workers/retention-fixture.ts';

let retention: RetentionFixture;
before(async () => {
  retention = await openRetentionFixture(true);
});
after(() => retention.fixture.dispose());

const killedJobs = isLongRun ? 25 : 10;

test('a server killed at random times announces each job once and deletes each job once', async () => {
  const { fixture, listEvents, hasWorkspace, jobEndedDaysAgo } = retention;
  const owner = await fixture.user('43');
  const jobs: Job[] = [];
  for (let count = 0; count < killedJobs; count++) jobs.push(await jobEndedDaysAgo(retentionDays + 1, owner));
  const kill = async () => {
    await sleep(Math.random() * 300);
    await fixture.restart('SIGKILL');
  };
  // Not before all are announced: an announcement between the two statements would be made twice.
  for (const job of jobs) await retention.waitForNotice(job);
  // In this order: the worker announces a job again as soon as its `expires_at` is null.
  await fixture.tamper("delete from events where kind = 'job.expiring' and user_id = '43'");
  await fixture.tamper("update jobs set expires_at = null where owner = '43'");
  await kill();
  await until('all jobs are announced', async () => {
    const announcements = await Promise.all(jobs.map((job) => listEvents(job, 'job.expiring')));
    return announcements.every((events) => events.length > 0) ? true : undefined;
  });
  await fixture.tamper("update jobs set expires_at = 1 where owner = '43'");
  for (let round = 0; round < 3; round++) await kill();
  await until('all jobs are deleted', () => (jobs.some((job) => hasWorkspace(job)) ? undefined : true));
  for (const job of jobs) {
    assert.equal((await listEvents(job, 'job.expiring')).length, 1);
    assert.equal((await listEvents(job, 'job.deleted')).length, 1);
  }
  await assertLedgerBalances(fixture.server);
});
