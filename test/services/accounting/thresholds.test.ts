import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { Caller, Quota } from '../../support/api.ts';
import { jobPath } from '../../support/jobs.ts';
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

// Who is told when an account is nearly used, used up, or about to expire. Events are rows until somebody serves them.

interface Told {
  user: string;
  kind: string;
  data: Record<string, unknown>;
}

let fixture: AccountingFixture;
let admin: Caller;

before(async () => {
  fixture = await openAccountingFixture({
    ownProcess: true,
    adjust: (config) => {
      config.ledger = { expiryNoticeDays: 14, calendarSeconds: 0.1 };
    },
  });
  admin = fixture.admin;
});
after(async () => {
  await assertLedgerBalances(fixture.admin);
  await fixture.dispose();
});

const nameOf = (project: string) => project.replace('hpc_one/', '');

/** Every event about quotas of a project, in the order in which they were told. */
async function told(project: string, kind = 'quota.threshold'): Promise<Told[]> {
  const rows = await fixture.query<{ user_id: string; kind: string; data: string }>(
    'select user_id, kind, data from events where kind = ? order by id',
    kind,
  );
  return rows
    .map((row) => ({ user: row.user_id, kind: row.kind, data: JSON.parse(row.data) }))
    .filter(({ data }) => data.project_name === nameOf(project));
}

/** As `302501 cap 80`: whom, of which account, which share. */
const shares = async (project: string, resource = 'time') =>
  (await told(project))
    .filter(({ data }) => data.resource === resource)
    .map(({ user, data }) => `${user} ${data.account} ${data.percent}`)
    .sort();

describe('the use of time', () => {
  const me = '302501';
  const [mate, gone] = ['302502', '302503'];
  let project: string;
  let caller: Caller;
  let used: number;

  /** Uses a second or so. */
  const useALittle = async () => {
    const job = await runJob(caller, { command: 'true', runtime: 10 / 3600 }, undefined, project);
    used += (await listJobMovements(caller, job, 'time', project)).at(-1)?.used ?? Number.NaN;
  };
  /** Leaves a grant of which one second more than is used now makes four fifths. */
  const justBelowFourFifths = async () => {
    const [hpc = '', name = ''] = project.split('/');
    const { time_left } = await caller.quota(hpc, name);
    await withdraw(admin, me, used + time_left - Math.floor((used + 1) / 0.8), { project });
  };

  before(async () => {
    caller = await fixture.user(me);
    for (const user of [mate, gone]) await fixture.user(user);
    project = await createProject(admin, 'thresholds', [me, mate, gone], { timeSeconds: 2000 });
    await setMember(admin, project, gone, 'removed', 'left the group');
    // So that the pool is used as the one cap is.
    for (const user of [mate, gone]) await withdrawDownTo(admin, user, { time: 0 }, project);
    const big = { command: 'true', core_number: 100, runtime: 10 / 3600 };
    const job = await runJob(caller, big, undefined, project);
    used = (await listJobMovements(caller, job, 'time', project)).at(-1)?.used ?? Number.NaN;
  });

  test('below four fifths tells nobody anything', async () => {
    await justBelowFourFifths();
    assert.deepEqual(await shares(project), []);
  });

  test('at four fifths tells the holder of the cap, and everybody who shares the pool', async () => {
    await useALittle();
    assert.deepEqual(await shares(project), [`${me} cap 80`, `${me} pool 80`, `${mate} pool 80`]);
    const [event] = await told(project);
    assert.deepEqual(event?.data.hpc, 'hpc_one');
    assert.deepEqual(Object.keys(event?.data ?? {}).sort(), ['account', 'hpc', 'percent', 'project_name', 'resource']);
  });

  test('beyond it, but short of all, tells nothing again', async () => {
    const before = (await told(project)).length;
    for (let i = 0; i < 2; i++) await useALittle();
    assert.equal((await told(project)).length, before);
  });

  test('of all of it tells once more, and only once', async () => {
    const before = (await told(project)).length;
    const { time_left } = (await admin.get<Quota>(`/admin/quotas/${me}/${project}/`)).body;
    const all = { command: 'true', core_number: time_left, runtime: 1 / 3600 };
    const job = await runJob(caller, all, undefined, project);
    used += (await listJobMovements(caller, job, 'time', project)).at(-1)?.used ?? Number.NaN;
    assert.deepEqual(
      (await told(project))
        .slice(before)
        .map(({ user, data }) => `${user} ${data.account} ${data.percent}`)
        .sort(),
      [`${me} cap 100`, `${me} pool 100`, `${mate} pool 100`],
    );
  });

  test('after a top-up can cross four fifths again, and is told again', async () => {
    const before = (await told(project)).length;
    await topUp(admin, me, used + 1000, { project });
    await justBelowFourFifths();
    assert.equal((await told(project)).length, before, 'neither the top-up nor the withdrawal is told');
    await useALittle();
    const again = (await told(project)).slice(before);
    assert.deepEqual(again.map(({ user, data }) => `${user} ${data.account} ${data.percent}`).sort(), [
      `${me} cap 80`,
      `${me} pool 80`,
      `${mate} pool 80`,
    ]);
  });

  test('that an administrator brings over a threshold by taking away is told too', async () => {
    const before = (await told(project)).length;
    const { time_left } = (await admin.get<Quota>(`/admin/quotas/${me}/${project}/`)).body;
    await withdraw(admin, me, time_left, { project });
    assert.deepEqual(
      (await told(project)).slice(before).map(({ data }) => data.percent),
      [100, 100, 100],
    );
  });

  test('is what counts: what is held, and may come back, is not told', async () => {
    const user = '302504';
    const holder = await fixture.user(user);
    const other = await createProject(admin, 'held', [user], { timeSeconds: 5000 });
    const job = await runJob(holder, { command: 'sbatch missing.sh', runtime: 5000 / 3600 }, undefined, other);
    assert.equal(job.stage, 'FAILED');
    assert.deepEqual(await told(other), []);
  });
});

describe('the use of space', () => {
  test('is told in the same way: when it is nearly full, and again after it was emptied', async () => {
    const user = '302511';
    const caller = await fixture.user(user);
    const project = await createProject(admin, 'full', [user], { timeSeconds: 10_000, spaceKb: 10 });
    const write = (bytes: number) => runJob(caller, { command: `head -c ${bytes} /dev/zero > x` }, undefined, project);
    const small = await write(7999);
    assert.deepEqual(await shares(project, 'space'), []);
    await write(1);
    const nearly = [`${user} cap 80`, `${user} pool 80`];
    assert.deepEqual(await shares(project, 'space'), nearly);
    await caller.send('DELETE', jobPath(small));
    assert.deepEqual(await shares(project, 'space'), nearly);
    await write(8000);
    assert.deepEqual(await shares(project, 'space'), [...nearly, ...nearly].sort());
    await write(5000);
    assert.deepEqual(await shares(project, 'space'), [
      `${user} cap 100`,
      ...[...nearly, ...nearly].sort().slice(0, 2),
      `${user} pool 100`,
      ...[...nearly, ...nearly].sort().slice(2),
    ]);
    assert.deepEqual(await shares(project), [], 'and has nothing to do with time');
  });
});

describe('the end of a period', () => {
  const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
  const openPeriod = async (project: string, body: object) => {
    const whole = { member_seconds: 100, reason: 'for some time', ...body };
    const { status, text } = await postAsAdmin(admin, `/admin/grants/${project}/periods/`, whole);
    assert.equal(status, 201, text);
  };
  /** The calendar has been looked at several times since: whatever it had to say, it has said. */
  const aFewRounds = async () => {
    const marker = `round_${rounds++}`;
    const project = await createProject(admin, marker, ['302521'], { timeSeconds: 1 });
    for (const days of [1, 2]) {
      await openPeriod(project, { starts: inDays(days) });
      // The one before it ends then, which is soon enough to be told.
      await until('the calendar is looked at', async () =>
        (await told(project, 'quota.expiring')).length === days ? true : undefined,
      );
    }
  };
  let rounds = 0;

  test('is announced once, some days before, to those who are members', async () => {
    await Promise.all(['302521', '302522', '302523'].map((user) => fixture.user(user)));
    const project = await createProject(admin, 'expiring', ['302521', '302522', '302523'], { timeSeconds: 100 });
    await setMember(admin, project, '302523', 'banned', 'for a test');
    const ends = inDays(13);
    await openPeriod(project, { starts: ends });
    await until('the end is announced', async () =>
      (await told(project, 'quota.expiring')).length > 0 ? true : undefined,
    );
    await aFewRounds();
    const events = await told(project, 'quota.expiring');
    assert.deepEqual(
      events.map(({ user }) => user),
      ['302521', '302522'],
    );
    for (const { data } of events) {
      assert.deepEqual(data, { hpc: 'hpc_one', project_name: 'expiring', resource: 'time', ends_at: ends });
    }
  });

  test('that is far away is not announced yet', async () => {
    const project = await createProject(admin, 'lasting', ['302521'], { timeSeconds: 100 });
    await openPeriod(project, { starts: inDays(15) });
    await aFewRounds();
    assert.deepEqual(await told(project, 'quota.expiring'), []);
  });

  test('is not announced again by a restart', async () => {
    await fixture.restart('SIGKILL');
    admin = fixture.admin;
    await aFewRounds();
    assert.equal((await told('hpc_one/expiring', 'quota.expiring')).length, 2);
  });

  test('lets the rest expire without telling anybody that it was used', async () => {
    const user = '302524';
    const caller = await fixture.user(user);
    const project = await createProject(admin, 'unused', [user], { timeSeconds: 10_000 });
    await runJob(caller, { command: 'true', runtime: 1 / 360 }, undefined, project);
    // Far less than four fifths of it are used.
    await until('a period takes over', async () => {
      const body = { member_seconds: 100, starts: new Date(Date.now() + 300).toISOString(), reason: 'the next one' };
      return (await postAsAdmin(admin, `/admin/grants/${project}/periods/`, body)).status === 201 ? true : undefined;
    });
    await until('the old grant has expired', async () => {
      const { movements } = (await getStatement(caller, project)).time;
      return movements.some(({ kind }) => kind === 'expire') ? true : undefined;
    });
    assert.deepEqual(await shares(project), []);
  });
});
