import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { Caller, Quota } from '../../support/api.ts';
import { jobPath, unrunnableScript } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  createProject,
  getStatement,
  listJobMovements,
  postAsAdmin,
  runJob,
  setMember,
  topUp,
  withdraw,
  withdrawDownTo,
} from '../../support/ledger.ts';
import { until } from '../../support/until.ts';

// Events for accounts that are nearly used, used up, or about to expire. The tests read them from the database.

interface QuotaEvent {
  user: string;
  kind: string;
  data: Record<string, unknown>;
}

let fixture: AccountingFixture;
let admin: Caller;

before(async () => {
  fixture = await openAccountingFixture({ tuning: { expiryIntervalMs: 100 } });
  admin = fixture.admin;
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

const nameOf = (project: string) => project.replace('hpc_one/', '');

/** Returns the quota events of a project, in order of creation. */
async function listQuotaEvents(project: string, kind = 'quota.threshold'): Promise<QuotaEvent[]> {
  const rows = await fixture.query<{ user_id: string; kind: string; data: string }>(
    'select user_id, kind, data from events where kind = ? order by id',
    kind,
  );
  return rows
    .map((row) => ({ user: row.user_id, kind: row.kind, data: JSON.parse(row.data) }))
    .filter(({ data }) => data.project_name === nameOf(project));
}

/** Formats threshold events as user, account and percent, e.g. `302501 cap 80`. */
const listThresholds = async (project: string, resource = 'time') =>
  (await listQuotaEvents(project))
    .filter(({ data }) => data.resource === resource)
    .map(({ user, data }) => `${user} ${data.account} ${data.percent}`)
    .sort();

describe('threshold events for time', () => {
  const me = '302501';
  const [otherMember, removedMember] = ['302502', '302503'];
  let project: string;
  let caller: Caller;
  let used: number;

  /** Runs a job that uses about a second. */
  const useOneSecond = async () => {
    const job = await runJob(caller, { command: 'true', runtime: 10 / 3600 }, undefined, project);
    used += (await listJobMovements(caller, job, 'time', project)).at(-1)?.used ?? Number.NaN;
  };
  /** Withdraws so much that one more used second reaches 80 % of the grant. */
  const withdrawToJustBelow80Percent = async () => {
    const [hpc = '', name = ''] = project.split('/');
    const { time_left } = await caller.quota(hpc, name);
    await withdraw(admin, me, used + time_left - Math.floor((used + 1) / 0.8), { project });
  };

  before(async () => {
    caller = await fixture.user(me);
    for (const user of [otherMember, removedMember]) await fixture.user(user);
    project = await createProject(admin, 'thresholds', [me, otherMember, removedMember], { timeSeconds: 2000 });
    await setMember(admin, project, removedMember, 'removed', 'left the group');
    // Leaves the pool only what the cap of the first member has.
    for (const user of [otherMember, removedMember]) await withdrawDownTo(admin, user, { time: 0 }, project);
    const big = { command: 'true', core_number: 100, runtime: 10 / 3600 };
    const job = await runJob(caller, big, undefined, project);
    used = (await listJobMovements(caller, job, 'time', project)).at(-1)?.used ?? Number.NaN;
  });

  test('are not sent below 80 %', async () => {
    await withdrawToJustBelow80Percent();
    assert.deepEqual(await listThresholds(project), []);
  });

  test('are sent at 80 % to the owner of the cap, and for the pool to all active members', async () => {
    await useOneSecond();
    assert.deepEqual(await listThresholds(project), [`${me} cap 80`, `${me} pool 80`, `${otherMember} pool 80`]);
    const [event] = await listQuotaEvents(project);
    assert.deepEqual(event?.data.hpc, 'hpc_one');
    assert.deepEqual(Object.keys(event?.data ?? {}).sort(), ['account', 'hpc', 'percent', 'project_name', 'resource']);
  });

  test('are not repeated between 80 % and 100 %', async () => {
    const before = (await listQuotaEvents(project)).length;
    for (let i = 0; i < 2; i++) await useOneSecond();
    assert.equal((await listQuotaEvents(project)).length, before);
  });

  test('are sent once more at 100 %', async () => {
    const before = (await listQuotaEvents(project)).length;
    const { time_left } = (await admin.get<Quota>(`/admin/quotas/${me}/${project}/`)).body;
    const payload = { command: 'true', core_number: time_left, runtime: 1 / 3600 };
    const job = await runJob(caller, payload, undefined, project);
    used += (await listJobMovements(caller, job, 'time', project)).at(-1)?.used ?? Number.NaN;
    assert.deepEqual(
      (await listQuotaEvents(project))
        .slice(before)
        .map(({ user, data }) => `${user} ${data.account} ${data.percent}`)
        .sort(),
      [`${me} cap 100`, `${me} pool 100`, `${otherMember} pool 100`],
    );
  });

  test('are sent again when 80 % is reached again after a top-up', async () => {
    const before = (await listQuotaEvents(project)).length;
    await topUp(admin, me, used + 1000, { project });
    await withdrawToJustBelow80Percent();
    assert.equal(
      (await listQuotaEvents(project)).length,
      before,
      'neither the top-up nor the withdrawal sends an event',
    );
    await useOneSecond();
    const repeated = (await listQuotaEvents(project)).slice(before);
    assert.deepEqual(repeated.map(({ user, data }) => `${user} ${data.account} ${data.percent}`).sort(), [
      `${me} cap 80`,
      `${me} pool 80`,
      `${otherMember} pool 80`,
    ]);
  });

  test('are sent when a withdrawal by an administrator crosses a threshold', async () => {
    const before = (await listQuotaEvents(project)).length;
    const { time_left } = (await admin.get<Quota>(`/admin/quotas/${me}/${project}/`)).body;
    await withdraw(admin, me, time_left, { project });
    assert.deepEqual(
      (await listQuotaEvents(project)).slice(before).map(({ data }) => data.percent),
      [100, 100, 100],
    );
  });

  test('are not sent for time that is held but not used', async () => {
    const user = '302504';
    const holder = await fixture.user(user);
    const other = await createProject(admin, 'held', [user], { timeSeconds: 5000 });
    const { command, zip } = unrunnableScript;
    const job = await runJob(holder, { command, runtime: 5000 / 3600 }, zip, other);
    assert.equal(job.stage, 'FAILED');
    assert.deepEqual(await listQuotaEvents(other), []);
  });
});

describe('threshold events for space', () => {
  test('are sent at 80 % and 100 %, and again after files were deleted', async () => {
    const user = '302511';
    const caller = await fixture.user(user);
    const project = await createProject(admin, 'full', [user], { timeSeconds: 10_000, spaceKb: 10 });
    const write = (bytes: number) => runJob(caller, { command: `head -c ${bytes} /dev/zero > x` }, undefined, project);
    const small = await write(7999);
    assert.deepEqual(await listThresholds(project, 'space'), []);
    await write(1);
    const at80Percent = [`${user} cap 80`, `${user} pool 80`];
    assert.deepEqual(await listThresholds(project, 'space'), at80Percent);
    await caller.send('DELETE', jobPath(small));
    assert.deepEqual(await listThresholds(project, 'space'), at80Percent);
    await write(8000);
    assert.deepEqual(await listThresholds(project, 'space'), [...at80Percent, ...at80Percent].sort());
    await write(5000);
    assert.deepEqual(await listThresholds(project, 'space'), [
      `${user} cap 100`,
      ...[...at80Percent, ...at80Percent].sort().slice(0, 2),
      `${user} pool 100`,
      ...[...at80Percent, ...at80Percent].sort().slice(2),
    ]);
    assert.deepEqual(await listThresholds(project), [], 'no events for time');
  });
});

describe('the notice of the end of a period', () => {
  const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
  const createPeriod = async (project: string, body: object) => {
    const request = { member_seconds: 100, reason: 'for some time', ...body };
    const { status, text } = await postAsAdmin(admin, `/admin/grants/${project}/periods/`, request);
    assert.equal(status, 201, text);
  };
  /** Waits until the expiry worker has run twice: it has sent notices for two periods, created one after the other. */
  const waitForPeriodWorker = async () => {
    const name = `run_${runCount++}`;
    const project = await createProject(admin, name, ['302521'], { timeSeconds: 1 });
    for (const days of [1, 2]) {
      await createPeriod(project, { starts: inDays(days) });
      // The period before it ends at this start, which is within the notice period.
      await until('the expiry worker has run', async () =>
        (await listQuotaEvents(project, 'quota.expiring')).length === days ? true : undefined,
      );
    }
  };
  let runCount = 0;

  test('is sent once, within the notice period, to the active members', async () => {
    await Promise.all(['302521', '302522', '302523'].map((user) => fixture.user(user)));
    const project = await createProject(admin, 'expiring', ['302521', '302522', '302523'], { timeSeconds: 100 });
    await setMember(admin, project, '302523', 'banned', 'for a test');
    const ends = inDays(6);
    await createPeriod(project, { starts: ends });
    await until('the notice is sent', async () =>
      (await listQuotaEvents(project, 'quota.expiring')).length > 0 ? true : undefined,
    );
    await waitForPeriodWorker();
    const events = await listQuotaEvents(project, 'quota.expiring');
    assert.deepEqual(
      events.map(({ user }) => user),
      ['302521', '302522'],
    );
    for (const { data } of events) {
      assert.deepEqual(data, { hpc: 'hpc_one', project_name: 'expiring', resource: 'time', ends_at: ends });
    }
  });

  test('is not sent before the notice period', async () => {
    const project = await createProject(admin, 'lasting', ['302521'], { timeSeconds: 100 });
    await createPeriod(project, { starts: inDays(8) });
    await waitForPeriodWorker();
    assert.deepEqual(await listQuotaEvents(project, 'quota.expiring'), []);
  });

  test('is not sent again after a restart', async () => {
    await fixture.restart('SIGTERM');
    admin = fixture.admin;
    await waitForPeriodWorker();
    assert.equal((await listQuotaEvents('hpc_one/expiring', 'quota.expiring')).length, 2);
  });

  test('is not followed by threshold events when the unused time expires', async () => {
    const user = '302524';
    const caller = await fixture.user(user);
    const project = await createProject(admin, 'unused', [user], { timeSeconds: 10_000 });
    await runJob(caller, { command: 'true', runtime: 1 / 360 }, undefined, project);
    // Much less than 80 % of the grant is used.
    await until('the next period is created', async () => {
      const body = { member_seconds: 100, starts: new Date(Date.now() + 300).toISOString(), reason: 'the next one' };
      return (await postAsAdmin(admin, `/admin/grants/${project}/periods/`, body)).status === 201 ? true : undefined;
    });
    await until('the old grant has expired', async () => {
      const { movements } = (await getStatement(caller, project)).time;
      return movements.some(({ kind }) => kind === 'expire') ? true : undefined;
    });
    assert.deepEqual(await listThresholds(project), []);
  });
});
