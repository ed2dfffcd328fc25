import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ApiResponse, Caller } from '../../support/api.ts';
import { releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  getStatement,
  listJobMovements,
  postAsAdmin,
  postCreated,
  runJob,
  setMember,
  submitJob,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { until } from '../../support/until.ts';
import { inSeconds, openPeriodFixture, type Period, type PeriodFixture, reason } from './period-fixture.ts';

let fixture: PeriodFixture;
let admin: Caller;

before(async () => {
  fixture = await openPeriodFixture();
  admin = fixture.admin;
});
after(() => fixture.close());

describe('a new period', () => {
  test('without a start begins now, also many times in a row', async () => {
    const project = await fixture.createProjectFor('302201');
    const responses: ApiResponse<Period>[] = [];
    // Each period ends the one before it.
    for (let i = 0; i < 25; i++) responses.push(await fixture.postPeriod(project, { member_seconds: i }));
    assert.deepEqual(
      responses.filter(({ status }) => status !== 201).map(({ status, text }) => `${status} ${text}`),
      [],
    );
    assert.equal(await fixture.getTimeLeft('302201', project), 24);
  });

  test('without a start returns the same response for the same idempotency key', async () => {
    const project = await fixture.createProjectFor('302201');
    const key = 'a-period-from-now-on';
    const first = await until('the period is created', async () => {
      const response = await fixture.postPeriod(project, { member_seconds: 5 }, key);
      return response.status === 201 ? response : undefined;
    });
    await until('the clock has moved on', () => (Date.now() > Date.parse(first.body.starts) + 5 ? true : undefined));
    assert.equal((await fixture.postPeriod(project, { member_seconds: 5 }, key)).text, first.text);
  });

  test('replaces a current period without an end, and grants its time to every member', async () => {
    const project = await fixture.createProjectFor('302202', '302203');
    await setMember(admin, project, '302203', 'removed', 'left');
    const period = await fixture.createStartedPeriod(project, { member_seconds: 777, reserve_seconds: 50 });
    assert.deepEqual([period.ends, typeof period.id], [null, 'number']);
    assert.equal(await fixture.getTimeLeft('302202', project), 777);
    assert.equal(await fixture.getTimeLeft('302203', project), 0, 'a removed member gets nothing');
    const fromReserve = { kind: 'top_up', resource: 'time', source: 'pool', reason };
    const path = `/admin/grants/${project}/members/302202/`;
    assertProblem(await postAsAdmin(admin, path, { ...fromReserve, amount: 51 }), { status: 409, code: 'conflict' });
    await postCreated(admin, path, { ...fromReserve, amount: 50 });
    assert.equal(await fixture.getTimeLeft('302202', project), 827);
  });

  test('lets the unused time of the old period expire, which the statement shows', async () => {
    const project = await fixture.createProjectFor('302204');
    const me = await fixture.user('302204');
    await fixture.createStartedPeriod(project, { member_seconds: 300 });
    const statement = await until('the old grant has expired', async () => {
      const { time } = await getStatement(me, project);
      return time.movements.some(({ kind }) => kind === 'expire') ? time : undefined;
    });
    const expired = statement.movements.find(({ kind }) => kind === 'expire');
    assert.deepEqual([expired?.change, expired?.actor], [-10_000, 'bursar']);
    assert.match(expired?.reason ?? '', /^expired with its period at \d{4}-/);
    assert.equal(await fixture.getTimeLeft('302204', project), 300);
    await assertStatementAddsUp(me, project);
    const [row] = await fixture.query<{ n: number }>(
      `select count(*) as n from entries e join accounts a on a.id = e.account_id join projects p on p.id = a.project_id
       where e.kind = 'expire' and p.name = ?`,
      project.replace('hpc_one/', ''),
    );
    assert.equal(row?.n, 2, 'one entry each for pool and cap');
  });

  test('does not touch time held in the old period, which expires when the hold is settled', async () => {
    const project = await fixture.createProjectFor('302205');
    const me = await fixture.user('302205');
    const job = await submitJob(me, { command: waitForGoScript, runtime: 2 }, undefined, project);
    await waitForStage(me, job, 'RUNNING');
    await fixture.createStartedPeriod(project, { member_seconds: 3600 });
    await until('the free time has expired', async () => {
      const { movements } = (await getStatement(me, project)).time;
      return movements.some(({ kind, change }) => kind === 'expire' && change === -2800) ? true : undefined;
    });
    assert.equal(await fixture.getTimeLeft('302205', project), 3600, 'the job does not use the new grant');
    await assertLedgerBalances(fixture.server);

    releaseJob(fixture.server, job);
    await me.waitUntilFinished(job);
    const [, , charged] = await listJobMovements(me, job, 'time', project);
    const used = charged?.used ?? Number.NaN;
    assert.ok(used > 0);
    assert.equal(await fixture.getTimeLeft('302205', project), 3600);
    await until('the unused time of the job has expired', async () => {
      const { movements } = (await getStatement(me, project)).time;
      return movements.some(({ kind, change }) => kind === 'expire' && change === used - 7200) ? true : undefined;
    });
    await assertStatementAddsUp(me, project);
    await assertLedgerBalances(fixture.server);
  });

  test('that starts later leaves the current one valid until then', async () => {
    const project = await fixture.createProjectFor('302206');
    await fixture.createPeriod(project, { starts: inSeconds(86_400), member_seconds: 1 });
    assert.equal(await fixture.getTimeLeft('302206', project), 10_000);
    await runJob(await fixture.user('302206'), { command: 'true' }, undefined, project);
  });

  test('that starts later is not part of the current balance', async () => {
    const project = await fixture.createProjectFor('302207');
    await fixture.createPeriod(project, { starts: inSeconds(86_400), member_seconds: 5000 });
    const { time } = await getStatement(await fixture.user('302207'), project);
    assert.equal(
      time.closing_balance,
      await fixture.getTimeLeft('302207', project),
      'the balance equals the remaining quota',
    );
  });

  test('gives members who join during it the grant of the project', async () => {
    const project = await fixture.createProjectFor('302208');
    await fixture.createStartedPeriod(project, { member_seconds: 9 });
    await fixture.user('302209');
    await setMember(admin, project, '302209', 'active', 'joins late');
    assert.equal(await fixture.getTimeLeft('302209', project), 10_000, 'the grant of the project for new members');
    await runJob(await fixture.user('302209'), { command: 'true' }, undefined, project);
  });

  test('does not change the space quota', async () => {
    const project = await fixture.createProjectFor('302210');
    const me = await fixture.user('302210');
    await runJob(me, { command: 'printf 12345' }, undefined, project);
    await fixture.createStartedPeriod(project, { member_seconds: 9 });
    assert.match((await me.get(`/quotas/${project}/`)).text, /"space_left":999\.995,/);
  });
});

describe('an invalid period', () => {
  test('that overlaps with another one is rejected with 409', async () => {
    const project = await fixture.createProjectFor('302211');
    await fixture.createPeriod(project, {
      starts: '2100-01-01T00:00:00Z',
      ends: '2101-01-01T00:00:00Z',
      member_seconds: 1,
    });
    for (const [starts, ends] of [
      ['2100-01-01T00:00:00Z', '2101-01-01T00:00:00Z'],
      ['2100-06-01T00:00:00Z', '2100-07-01T00:00:00Z'],
      ['2099-06-01T00:00:00Z', '2099-07-01T00:00:00Z'],
      ['2100-12-31T23:59:59.999Z', undefined],
      ['2099-06-01T00:00:00Z', undefined],
      ['2099-06-01T00:00:00Z', '2102-01-01T00:00:00Z'],
    ] as const) {
      const response = await fixture.postPeriod(project, {
        starts,
        ...(ends === undefined ? {} : { ends }),
        member_seconds: 1,
      });
      assertProblem(response, { status: 409, code: 'conflict', message: /overlaps with the one from 2\d{3}-/ });
    }
    for (const [starts, ends] of [
      ['2101-01-01T00:00:00Z', '2102-01-01T00:00:00Z'],
      ['2102-01-01T00:00:00Z', undefined],
    ] as const) {
      await fixture.createPeriod(project, { starts, ...(ends === undefined ? {} : { ends }), member_seconds: 1 });
    }
    const rows = await fixture.query<{ starts_at: number; ends_at: number | null }>(
      `select starts_at, ends_at from periods join projects on projects.id = project_id
       where name = ? order by starts_at`,
      project.replace('hpc_one/', ''),
    );
    for (const [index, { ends_at }] of rows.entries()) {
      const next = rows[index + 1];
      if (next !== undefined) assert.ok(ends_at !== null && ends_at <= next.starts_at, JSON.stringify(rows));
    }
    assert.equal(
      await fixture.getTimeLeft('302211', project),
      10_000,
      'the rejected periods have not ended the current one',
    );
  });

  test('that starts in the past or ends before its start is rejected with 409', async () => {
    const project = await fixture.createProjectFor('302212');
    const past = await fixture.postPeriod(project, { starts: '2001-01-01T00:00:00Z', member_seconds: 1 });
    assertProblem(past, { status: 409, code: 'conflict', message: /past/ });
    const backwards = { starts: '2100-01-02T00:00:00Z', ends: '2100-01-01T00:00:00Z', member_seconds: 1 };
    assertProblem(await fixture.postPeriod(project, backwards), {
      status: 409,
      code: 'conflict',
      message: /end after its start/,
    });
  });

  test('with an invalid time is rejected with 400 and the name of the field', async () => {
    const project = await fixture.createProjectFor('302213');
    for (const [field, value] of [
      ['starts', 'soon'],
      ['ends', '2100-13-01T00:00:00Z'],
      ['ends', 7],
      ['starts', '2100-01-01'],
      ['starts', '2100-02-31T00:00:00Z'],
    ] as const) {
      const response = await fixture.postPeriod(project, { [field]: value, member_seconds: 1 });
      const { errors } = assertProblem(response, { status: 400, code: 'invalid_body' });
      assert.deepEqual([...new Set(errors?.map((error) => error.field))], [field]);
    }
  });
});
