import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { adminId, defaultProjectPath } from '../../support/accounting-fixture.ts';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import {
  type AccountStatement,
  assertStatementAddsUp,
  createProject,
  getStatement,
  type Statement,
  setMember,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { openStatementFixture, type StatementFixture, user } from './statement-fixture.ts';

// Statements with opening balance, movements and closing balance: whole, and for a time range.

let fixture: StatementFixture;
let me: Caller;
let jobs: Job[];

before(async () => {
  fixture = await openStatementFixture();
  ({ me, jobs } = fixture);
});
after(() => fixture.close());

const settledJob = ['reserve', 'release', 'charge'];

describe('a statement', () => {
  test('reads like that of a bank: what is charged is negative, and a hold is released by what was reserved', async () => {
    const { time, space } = await getStatement(me);
    for (const { movements } of [time, space]) {
      const [, reserved, released, charged] = movements;
      assert.ok(reserved && released && charged);
      assert.ok(reserved.change < 0);
      assert.deepEqual([released.change, released.used], [-reserved.change, 0]);
      assert.ok(charged.used > 0);
      assert.equal(charged.change, -charged.used);
      assert.deepEqual([released.id, released.at], [charged.id, charged.at], 'both are one entry of the ledger');
    }
  });

  test('has an opening balance of zero, all movements in order, and the remaining quota as closing balance', async () => {
    const { time, space } = await assertStatementAddsUp(me);
    assert.deepEqual([time.unit, space.unit], ['core-seconds', 'KB']);
    assert.deepEqual([time.opening_balance, space.opening_balance], [0, 0]);
    assert.deepEqual(
      time.movements.map(({ kind }) => kind),
      ['grant', ...settledJob, ...settledJob, 'top_up', 'withdraw', 'transfer', 'refund'],
    );
    assert.deepEqual(
      space.movements.map(({ kind }) => kind),
      ['grant', ...settledJob, 'reserve', 'release', 'top_up', 'free'],
    );
    const ids = [time, space].map(({ movements }) => movements.map(({ id }) => id));
    for (const list of ids)
      assert.deepEqual(
        list,
        list.toSorted((a, b) => a - b),
      );
  });

  test('shows actor, reason and job of each movement', async () => {
    const { time } = await getStatement(me);
    const [grant, reserve, , charge] = time.movements;
    assert.deepEqual([grant?.actor, grant?.job_id], ['bursar', null]);
    assert.deepEqual([reserve?.actor, reserve?.job_id], [user, jobs[0]?.job_id]);
    assert.deepEqual([charge?.actor, charge?.job_id, charge?.reason], ['bursar', jobs[0]?.job_id, 'used: succeeded']);
    const topped = time.movements.find(({ kind }) => kind === 'top_up');
    assert.deepEqual([topped?.actor, topped?.reason, topped?.change], [adminId, 'more is needed', 400]);
    const moved = time.movements.find(({ kind }) => kind === 'transfer');
    assert.deepEqual([moved?.change, moved?.reason], [-50, 'a reason, with "quotes", a comma\nand two lines']);
  });

  test('contains its user, project and time range', async () => {
    const statement = await getStatement(me);
    assert.deepEqual(
      [statement.user, statement.project_hpc, statement.project_name],
      [user, 'HPC_ONE', 'proj_hpc_one_01'],
    );
    assert.ok(statement.from < statement.to, `${statement.from} ${statement.to}`);
  });

  test('exists for a member without activity and for a removed member', async () => {
    await assertStatementAddsUp(await fixture.user('302002'));
    const removed = await fixture.user('302003');
    await setMember(fixture.admin, defaultProjectPath, '302003', 'removed', 'left the group');
    await assertStatementAddsUp(removed);
  });

  test('returns 404 to users who are not members, and for unknown projects and systems', async () => {
    const project = await createProject(fixture.admin, 'others', [], { timeSeconds: 10 });
    for (const [path, code] of [
      [`/quotas/${project}/statement/`, 'quota_unknown'],
      ['/quotas/hpc_one/nowhere/statement/', 'project_unknown'],
      ['/quotas/hpc_three/proj_hpc_one_01/statement/', 'system_unknown'],
    ] as const) {
      assertProblem(await me.get(path), { status: 404, code });
    }
    const response = await me.send('POST', `/quotas/${defaultProjectPath}/statement/`);
    assertProblem(response, { status: 405, code: 'method_not_allowed' });
    const anonymous = createCaller(fixture.server.url, null);
    assertProblem(await anonymous.get(`/quotas/${defaultProjectPath}/statement/`), {
      status: 401,
      code: 'token_missing',
    });
  });

  test('of another user can be read by administrators only, who see the same as the user', async () => {
    const range = `?to=${encodeURIComponent(new Date(Date.now() + 1000).toISOString())}`;
    const own = await me.get(`/quotas/${defaultProjectPath}/statement/${range}`);
    const adminView = await fixture.admin.get(`/admin/quotas/${user}/${defaultProjectPath}/statement/${range}`);
    assert.deepEqual([adminView.status, withoutRate(adminView.body)], [200, withoutRate(own.body)]);
    for (const id of [user, '302002']) {
      const rejected = await (await fixture.user('302002')).get(`/admin/quotas/${id}/${defaultProjectPath}/statement/`);
      assertProblem(rejected, { status: 403, code: 'forbidden' });
    }
    assertProblem(await fixture.admin.get(`/admin/quotas/999999/${defaultProjectPath}/statement/`), {
      status: 404,
      code: 'user_unknown',
    });
  });

  /** Removes the burn rate, which depends on the time of the request. */
  function withoutRate(body: unknown) {
    const { time, ...rest } = body as Statement;
    return { ...rest, time: { ...time, burn_rate_per_day: 0, runs_out_at: null } };
  }
});

describe('time ranges of a statement', () => {
  const encode = (time: string) => encodeURIComponent(time);

  test('are contiguous: each closing balance is the next opening balance, and no movement is lost', async () => {
    const whole = await getStatement(me);
    const times = [...whole.time.movements, ...whole.space.movements].map((movement) => movement.at).sort();
    // At the exact millisecond of each movement, and one millisecond later.
    const cuts = [...new Set(times.flatMap((time) => [time, new Date(Date.parse(time) + 1).toISOString()]))];
    const ranges = [undefined, ...cuts].map((from, index) => ({ from, to: cuts[index] }));
    const parts: Statement[] = [];
    for (const { from, to } of ranges) {
      const query = [from && `from=${encode(from)}`, to && `to=${encode(to)}`].filter(Boolean).join('&');
      parts.push(await getStatement(me, defaultProjectPath, `?${query}`));
    }
    for (const resource of ['time', 'space'] as const) {
      const accounts = parts.map((part): AccountStatement => part[resource]);
      assert.equal(accounts[0]?.opening_balance, 0);
      for (const [index, account] of accounts.entries()) {
        const next = accounts[index + 1];
        if (next !== undefined)
          assert.equal(account.closing_balance, next.opening_balance, JSON.stringify(cuts[index]));
        for (const { at } of account.movements) {
          const { from = '', to = '9' } = ranges[index] ?? {};
          assert.ok(at >= from && at < to, `${from} ${at} ${to}`);
        }
      }
      assert.deepEqual(
        accounts.flatMap(({ movements }) => movements),
        whole[resource].movements,
      );
      assert.equal(accounts.at(-1)?.closing_balance, whole[resource].closing_balance);
    }
  });

  test('are repeated in the response, and can be dates, times in any zone, and in the future', async () => {
    const statement = await getStatement(
      me,
      defaultProjectPath,
      `?from=2020-01-31&to=${encode('2100-01-01T01:00:00+01:00')}`,
    );
    assert.deepEqual([statement.from, statement.to], ['2020-01-31T00:00:00.000Z', '2100-01-01T00:00:00.000Z']);
    assert.equal(statement.time.closing_balance, (await getStatement(me)).time.closing_balance);
  });

  test('before the first movement are empty, and after the last one show the balance', async () => {
    const early = await getStatement(me, defaultProjectPath, '?from=2001-01-01&to=2002-01-01');
    assert.deepEqual(
      [early.time.opening_balance, early.time.closing_balance, early.time.movements],
      [0, 0, []],
      'no movements yet',
    );
    assert.equal(early.time.runs_out_at, null);
    const late = await getStatement(me, defaultProjectPath, '?from=2100-01-01&to=2101-01-01');
    const { closing_balance } = (await getStatement(me)).time;
    assert.deepEqual([late.time.opening_balance, late.time.closing_balance], [closing_balance, closing_balance]);
  });

  for (const query of [
    '?from=yesterday',
    '?to=tomorrow',
    '?from=',
    '?from=2026-13-01',
    '?to=2026-01-32',
    '?from=31.01.2026',
    '?from=2026-01-02&to=2026-01-01',
    '?from=2026-01-01&to=2026-01-01',
    '?format=xml',
    '?from=2026-01-01&from=2026-01-02',
  ]) {
    test(`${query} is rejected with 400`, async () => {
      const response = await me.get(`/quotas/${defaultProjectPath}/statement/${query}`);
      assert.equal(response.status, 400, response.text);
      assert.equal(response.headers.get('content-type'), 'application/problem+json');
    });
  }

  test('that are not in ISO 8601 are rejected with 400, and not guessed', async () => {
    const accepted: string[] = [];
    for (const text of ['1', 'foo 1', '2026-02-31', '01/31/2026', 'Jan 2026']) {
      const { status, body } = await me.get<Statement>(`/quotas/${defaultProjectPath}/statement/?from=${encode(text)}`);
      if (status !== 400) accepted.push(`${text} as ${body.from}`);
    }
    assert.deepEqual(accepted, []);
  });
});
