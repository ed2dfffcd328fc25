import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type AccountingFixture, openAccountingFixture } from '../support/accounting-fixture.ts';
import type { Caller, Job } from '../support/api.ts';
import { jobPath } from '../support/jobs.ts';
import { assertLedgerBalances, assertStatementAddsUp, listJobMovements, runJob } from '../support/ledger.ts';
import { isLongRun } from '../support/long-run.ts';
import { until } from '../support/until.ts';
import { createZip } from '../support/zip.ts';

const dayMs = 86_400_000;
const retentionDays = 100;
const noticeDays = 7;
let fixture: AccountingFixture;
let me: Caller;

/** Sets the retention period of the projects of hpc_one; undefined keeps files for ever. */
const withRetention =
  (days: number | undefined) => (config: Parameters<NonNullable<Parameters<AccountingFixture['restart']>[1]>>[0]) => {
    config.retention = { noticeDays, everySeconds: 0.1 };
    for (const project of config.systems.hpc_one?.projects ?? []) {
      if (days === undefined) delete project.retentionDays;
      else project.retentionDays = days;
    }
  };

before(async () => {
  fixture = await openAccountingFixture({ ownProcess: true, adjust: withRetention(retentionDays) });
  me = await fixture.user('42');
});
after(() => fixture.dispose());

const restart = async (how: 'SIGTERM' | 'SIGKILL', days: number | undefined) => {
  await fixture.restart(how, withRetention(days));
  me = await fixture.user('42');
};
const workspacePath = (job: Job) => join(fixture.server.data, 'workspaces', job.job_id);
const listEvents = async (job: Job, kind: string) => {
  const rows = await fixture.query<{ data: string }>(
    'select data from events where job = ? and kind = ?',
    job.id,
    kind,
  );
  return rows.map(({ data }) => JSON.parse(data) as Record<string, string>);
};

/** Runs a job with files, and sets its end to a number of days ago. */
async function jobEndedDaysAgo(days: number, owner = me): Promise<Job> {
  const job = await runJob(owner, { command: 'echo output' }, await createZip({ input: 'x'.repeat(5000) }));
  await fixture.tamper('update jobs set ended_at = ? where id = ?', Date.now() - days * dayMs, job.id);
  return job;
}

let marker: Job | undefined;

/** Waits until the retention worker has run twice, however slow the machine is: it has announced two times a job that was due. */
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
  const [event] = await until('the owner is notified', async () => {
    const events = await listEvents(job, 'job.expiring');
    return events.length > 0 ? events : undefined;
  });
  assert.equal(event?.job_id, job.job_id);
  return event?.deletes_at ?? '';
}

describe('files of finished jobs', () => {
  test('are kept without any event until the notice is due', async () => {
    const job = await jobEndedDaysAgo(retentionDays - noticeDays - 1);
    await waitForWorker();
    assert.deepEqual(await listEvents(job, 'job.expiring'), []);
    assert.ok(existsSync(workspacePath(job)));
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
    await restart('SIGKILL', retentionDays);
    await waitForWorker();
    assert.equal((await listEvents(job, 'job.expiring')).length, 1);
    assert.ok(existsSync(workspacePath(job)));
  });

  test('are deleted once when they expire, with the same stage, freed space and event as a DELETE request', async () => {
    const job = await jobEndedDaysAgo(retentionDays + 1);
    await waitForAnnouncement(job);
    const before = await me.quota('hpc_one', 'proj_hpc_one_01');
    await fixture.tamper('update jobs set expires_at = ? where id = ?', Date.now() - 1, job.id);
    await until('the files are deleted', () => (existsSync(workspacePath(job)) ? undefined : true));
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
    assert.ok(existsSync(workspacePath(job)));
  });

  test('are kept in a project without a retention period', async () => {
    const zip = await createZip({ 'main.sh': 'echo kept\n' });
    const keptJob = await runJob(me, { tool: 'BASH' }, zip, 'hpc_two/proj_hpc_two_01');
    await fixture.tamper('update jobs set ended_at = 1 where id = ?', keptJob.id);
    await waitForWorker();
    assert.deepEqual(await listEvents(keptJob, 'job.expiring'), []);
    assert.ok(existsSync(workspacePath(keptJob)));
  });

  test('are kept when the retention period is removed, and announced again when it is restored', async () => {
    const job = await jobEndedDaysAgo(retentionDays + 1);
    await waitForAnnouncement(job);
    await restart('SIGTERM', undefined);
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
    assert.ok(existsSync(workspacePath(job)));
    await restart('SIGTERM', retentionDays);
    await until('the owner is notified again', async () =>
      (await listEvents(job, 'job.expiring')).length === 2 ? true : undefined,
    );
    assert.ok(existsSync(workspacePath(job)));
  });
});

const killedJobs = isLongRun ? 25 : 10;

test('a server killed at random times announces each job once and deletes each job once', async () => {
  const owner = await fixture.user('43');
  const jobs: Job[] = [];
  for (let count = 0; count < killedJobs; count++) jobs.push(await jobEndedDaysAgo(retentionDays + 1, owner));
  const kill = async () => {
    await sleep(Math.random() * 300);
    await restart('SIGKILL', retentionDays);
  };
  // Not before all are announced: an announcement between the two statements would be made twice.
  for (const job of jobs) await waitForAnnouncement(job);
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
  await until('all jobs are deleted', () => (jobs.some((job) => existsSync(workspacePath(job))) ? undefined : true));
  for (const job of jobs) {
    assert.equal((await listEvents(job, 'job.expiring')).length, 1);
    assert.equal((await listEvents(job, 'job.deleted')).length, 1);
  }
  await assertLedgerBalances(fixture.admin);
});
