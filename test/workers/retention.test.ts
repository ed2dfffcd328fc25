import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller, Job } from '../support/api.ts';
import { type Bench, openBench } from '../support/bench.ts';
import { pathOf } from '../support/jobs.ts';
import { assertBalanced, assertExplained, movementsOf, ranJob } from '../support/ledger.ts';
import { until } from '../support/until.ts';
import { zipOf } from '../support/zip.ts';

const day = 86_400_000;
const keptDays = 100;
const noticeDays = 7;
let bench: Bench;
let me: Caller;

/** The project keeps files for so many days; or for ever. */
const keepFor = (days: number | undefined) => (config: Parameters<NonNullable<Parameters<Bench['restart']>[1]>>[0]) => {
  config.retention = { noticeDays, everySeconds: 0.1 };
  for (const project of config.systems.hpc_one?.projects ?? []) {
    if (days === undefined) delete project.retentionDays;
    else project.retentionDays = days;
  }
};

before(async () => {
  bench = await openBench({ ownProcess: true, adjust: keepFor(keptDays) });
  me = await bench.user('42');
});
after(() => bench.dispose());

const restart = async (how: 'SIGTERM' | 'SIGKILL', days: number | undefined) => {
  await bench.restart(how, keepFor(days));
  me = await bench.user('42');
};
const workspaceOf = (job: Job) => join(bench.server.data, 'workspaces', job.job_id);
const eventsOf = async (job: Job, kind: string) => {
  const rows = await bench.rows<{ data: string }>('select data from events where job = ? and kind = ?', job.id, kind);
  return rows.map(({ data }) => JSON.parse(data) as Record<string, string>);
};

/** A job with files that ended so many days ago. */
async function endedAgo(days: number, owner = me): Promise<Job> {
  const job = await ranJob(owner, { command: 'echo output' }, await zipOf({ input: 'x'.repeat(5000) }));
  await bench.tamper('update jobs set ended_at = ? where id = ?', Date.now() - days * day, job.id);
  return job;
}

/** Long enough for the janitor to have come by, however slow the machine: it has announced a job that was due. */
async function roundsPass(): Promise<void> {
  for (let round = 0; round < 2; round++) {
    const marker = await endedAgo(keptDays - noticeDays + 1);
    await until('the janitor comes by', async () =>
      (await eventsOf(marker, 'job.expiring')).length > 0 ? true : undefined,
    );
  }
}

async function announced(job: Job): Promise<string> {
  const [event] = await until('the owner is told', async () => {
    const events = await eventsOf(job, 'job.expiring');
    return events.length > 0 ? events : undefined;
  });
  assert.equal(event?.job_id, job.job_id);
  return event?.deletes_at ?? '';
}

describe('the files of finished jobs', () => {
  test('are kept, and nobody is told anything, until the notice is due', async () => {
    const job = await endedAgo(keptDays - noticeDays - 1);
    await roundsPass();
    assert.deepEqual(await eventsOf(job, 'job.expiring'), []);
    assert.ok(existsSync(workspaceOf(job)));
  });

  test('are announced with their date in time, once, and are still there', async () => {
    const job = await endedAgo(keptDays - noticeDays);
    const date = Date.parse(await announced(job));
    const [row] = await bench.rows<{ ended_at: number }>('select ended_at from jobs where id = ?', job.id);
    const due = (row?.ended_at ?? 0) + keptDays * day;
    assert.ok(date >= due && date < due + day, 'on the day that the configuration says');
    await roundsPass();
    await restart('SIGKILL', keptDays);
    await roundsPass();
    assert.equal((await eventsOf(job, 'job.expiring')).length, 1);
    assert.ok(existsSync(workspaceOf(job)));
  });

  test('are deleted when their time has come, as by DELETE: stage, space and event, once', async () => {
    const job = await endedAgo(keptDays + 1);
    await announced(job);
    const before = await me.quota('hpc_one', 'proj_hpc_one_01');
    await bench.tamper('update jobs set expires_at = ? where id = ?', Date.now() - 1, job.id);
    await until('the files are deleted', () => (existsSync(workspaceOf(job)) ? undefined : true));
    const { body } = await me.get<Job>(pathOf(job));
    assert.deepEqual([body.stage, body.terminal_stage, body.failed], ['DELETED', true, false]);
    const after = await me.quota('hpc_one', 'proj_hpc_one_01');
    assert.ok(after.space_left > before.space_left + 5);
    assert.equal(after.time_left, before.time_left);
    await roundsPass();
    const freed = (await movementsOf(me, job, 'space')).filter((movement) => movement.kind === 'free');
    assert.deepEqual(
      freed.map((movement) => movement.actor),
      ['bursar'],
    );
    assert.equal((await eventsOf(job, 'job.deleted')).length, 1);
    assert.equal((await me.send('DELETE', pathOf(job))).status, 200);
    await assertExplained(me);
  });

  test('are announced before they go, however long ago their job ended', async () => {
    const job = await endedAgo(10 * keptDays);
    const earliest = Date.now() + noticeDays * day;
    assert.ok(Date.parse(await announced(job)) >= earliest - 60_000);
    await roundsPass();
    assert.ok(existsSync(workspaceOf(job)));
  });

  test('are not touched while the job runs, nor in a project that keeps its files', async () => {
    const zip = await zipOf({ 'main.sh': 'echo kept\n' });
    const kept = await ranJob(me, { tool: 'BASH' }, zip, 'hpc_two/proj_hpc_two_01');
    await bench.tamper('update jobs set ended_at = 1 where id = ?', kept.id);
    await roundsPass();
    assert.deepEqual(await eventsOf(kept, 'job.expiring'), []);
    assert.ok(existsSync(workspaceOf(kept)));
  });

  test('are kept when the project no longer says how long; should it say so again, owners are told anew', async () => {
    const job = await endedAgo(keptDays + 1);
    await announced(job);
    await restart('SIGTERM', undefined);
    const withdrawn = async () => {
      const [row] = await bench.rows<{ expires_at: number | null }>('select expires_at from jobs where id = ?', job.id);
      return row?.expires_at === null ? true : undefined;
    };
    await until('the announcement is taken back', withdrawn);
    await bench.tamper('update jobs set expires_at = 1 where id = ?', job.id);
    await until('the next one is taken back', withdrawn);
    assert.ok(existsSync(workspaceOf(job)));
    await restart('SIGTERM', keptDays);
    await until('the owner is told again', async () =>
      (await eventsOf(job, 'job.expiring')).length === 2 ? true : undefined,
    );
    assert.ok(existsSync(workspaceOf(job)));
  });
});

test('whatever is killed and whenever, each owner is told once, and each job is deleted once', async () => {
  const owner = await bench.user('43');
  const jobs: Job[] = [];
  for (let count = 0; count < 25; count++) jobs.push(await endedAgo(keptDays + 1, owner));
  const kill = async () => {
    await sleep(Math.random() * 300);
    await restart('SIGKILL', keptDays);
  };
  await bench.tamper("update jobs set expires_at = null where owner = '43'");
  await bench.tamper("delete from events where kind = 'job.expiring' and user_id = '43'");
  await kill();
  await until('all are announced', async () => {
    const told = await Promise.all(jobs.map((job) => eventsOf(job, 'job.expiring')));
    return told.every((events) => events.length > 0) ? true : undefined;
  });
  await bench.tamper("update jobs set expires_at = 1 where owner = '43'");
  for (let round = 0; round < 3; round++) await kill();
  await until('all are deleted', () => (jobs.some((job) => existsSync(workspaceOf(job))) ? undefined : true));
  for (const job of jobs) {
    assert.equal((await eventsOf(job, 'job.expiring')).length, 1);
    assert.equal((await eventsOf(job, 'job.deleted')).length, 1);
  }
  await assertBalanced(bench.admin);
});
