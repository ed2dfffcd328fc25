import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { AccountingFixture } from '../support/accounting-fixture.ts';
import type { Caller, Job } from '../support/api.ts';
import { jobPath } from '../support/jobs.ts';
import { assertStatementAddsUp, listJobMovements, runJob } from '../support/ledger.ts';
import { until } from '../support/until.ts';
import { createZip } from '../support/zip.ts';
import {
  dayMs,
  noticeDays,
  openRetentionFixture,
  type RetentionFixture,
  retentionDays,
  withRetention,
} from './retention-fixture.ts';

let retention: RetentionFixture;
let fixture: AccountingFixture;
let me: Caller;

before(async () => {
  retention = await openRetentionFixture();
  ({ fixture } = retention);
  me = await fixture.user('42');
});
after(() => fixture.dispose());

const restart = async (days: number | undefined) => {
  await fixture.restart('SIGTERM', withRetention(days));
  me = await fixture.user('42');
};
const hasWorkspace = (job: Job) => retention.hasWorkspace(job);
const listEvents = (job: Job, kind: string) => retention.listEvents(job, kind);
const jobEndedDaysAgo = (days: number) => retention.jobEndedDaysAgo(days, me);

let marker: Job | undefined;

/** Waits until the expiry worker has run twice, however slow the machine is: it has announced two times a job that was due. */
async function waitForWorker(): Promise<void> {
  marker ??= await jobEndedDaysAgo(retentionDays - noticeDays + 1);
  const { id } = marker;
  const read = async (query: string) => Number((await fixture.query<{ count: number }>(query, id))[0]?.count);
  const isAnnounced = async () =>
    (await read('select count(expires_at) as count from jobs where id = ?')) > 0 || undefined;
  const countAnnouncements = () => read("select count(*) as count from events where job = ? and kind = 'job.expiring'");
  for (let run = 0; run < 2; run++) {
    await until('the marker job is announced', isAnnounced);
    const before = await countAnnouncements();
    await fixture.tamper('update jobs set expires_at = null where id = ?', id);
    await until('the marker job is announced again', async () => (await countAnnouncements()) > before || undefined);
  }
}

/** Waits for the announcement, and returns the announced date. */
async function waitForAnnouncement(job: Job): Promise<string> {
  const { job_id, deletes_at = '' } = await retention.waitForNotice(job);
  assert.equal(job_id, job.job_id);
  return deletes_at;
}

describe('files of finished jobs', () => {
  test('are kept without any event until the notice is due', async () => {
    const job = await jobEndedDaysAgo(retentionDays - noticeDays - 1);
    await waitForWorker();
    assert.deepEqual(await listEvents(job, 'job.expiring'), []);
    assert.ok(hasWorkspace(job));
  });

  test('are announced once, with the date of their deletion, and are not deleted yet', async () => {
    const job = await jobEndedDaysAgo(retentionDays - noticeDays);
    const date = Date.parse(await waitForAnnouncement(job));
    const [row] = await fixture.query<{ ended_at: number }>('select ended_at from jobs where id = ?', job.id);
    const due = (row?.ended_at ?? 0) + retentionDays * dayMs;
    assert.ok(date >= due && date < due + dayMs, 'on the configured day');
    const { body } = await me.get<{ entries: { deletes_at: string }[] }>(`${jobPath(job)}timeline/`);
    assert.equal(Date.parse(body.entries.at(-1)?.deletes_at ?? ''), date, 'the timeline has the date');
    await waitForWorker();
    await restart(retentionDays);
    await waitForWorker();
    assert.equal((await listEvents(job, 'job.expiring')).length, 1);
    assert.ok(hasWorkspace(job));
  });

  test('are deleted once when they expire, with the same stage, freed space and event as a DELETE request', async () => {
    const job = await jobEndedDaysAgo(retentionDays + 1);
    await waitForAnnouncement(job);
    const before = await me.quota('hpc_one', 'proj_hpc_one_01');
    await fixture.tamper('update jobs set expires_at = ? where id = ?', Date.now() - 1, job.id);
    await until('the files are deleted', () => (hasWorkspace(job) ? undefined : true));
    const { body } = await me.get<Job>(jobPath(job));
    assert.deepEqual([body.stage, body.terminal_stage, body.failed], ['DELETED', true, false]);
    const after = await me.quota('hpc_one', 'proj_hpc_one_01');
    assert.ok(after.space_left > before.space_left + 5);
    assert.equal(after.time_left, before.time_left);
    await waitForWorker();
    const freed = (await listJobMovements(me, job, 'space')).filter((movement) => movement.kind === 'free');
    assert.deepEqual(
      freed.map((movement) => movement.actor),
      ['bursar'],
    );
    assert.equal((await listEvents(job, 'job.deleted')).length, 1);
    assert.equal((await me.send('DELETE', jobPath(job))).status, 200);
    await assertStatementAddsUp(me);
  });

  test('are announced before they are deleted, however long ago their job ended', async () => {
    const job = await jobEndedDaysAgo(10 * retentionDays);
    const earliest = Date.now() + noticeDays * dayMs;
    assert.ok(Date.parse(await waitForAnnouncement(job)) >= earliest - 60_000);
    await waitForWorker();
    assert.ok(hasWorkspace(job));
  });

  test('are kept in a project without a retention period', async () => {
    const zip = await createZip({ 'main.sh': 'echo kept\n' });
    const keptJob = await runJob(me, { tool: 'BASH' }, zip, 'hpc_two/proj_hpc_two_01');
    await fixture.tamper('update jobs set ended_at = 1 where id = ?', keptJob.id);
    await waitForWorker();
    assert.deepEqual(await listEvents(keptJob, 'job.expiring'), []);
    assert.ok(hasWorkspace(keptJob));
  });

  test('are kept when the retention period is removed, and announced again when it is restored', async () => {
    const job = await jobEndedDaysAgo(retentionDays + 1);
    await waitForAnnouncement(job);
    await restart(undefined);
    const isWithdrawn = async () => {
      const [row] = await fixture.query<{ expires_at: number | null }>(
        'select expires_at from jobs where id = ?',
        job.id,
      );
      return row?.expires_at === null ? true : undefined;
    };
    await until('the announcement is withdrawn', isWithdrawn);
    await fixture.tamper('update jobs set expires_at = 1 where id = ?', job.id);
    await until('the next announcement is withdrawn', isWithdrawn);
    assert.ok(hasWorkspace(job));
    await restart(retentionDays);
    await until('the owner is notified again', async () =>
      (await listEvents(job, 'job.expiring')).length === 2 ? true : undefined,
    );
    assert.ok(hasWorkspace(job));
  });
});
