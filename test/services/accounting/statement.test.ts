import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  adminId,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { parseCsv } from '../../support/csv.ts';
import { jobPath } from '../../support/jobs.ts';
import {
  type AccountStatement,
  assertLedgerBalances,
  assertStatementAddsUp,
  createProject,
  getStatement,
  postCreated,
  runJob,
  type Statement,
  setMember,
  topUp,
  withdraw,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { createZip } from '../../support/zip.ts';

// Opening balance, every movement, closing balance: as JSON, as CSV, and by ranges of time.

const granted = 100_000;
const user = '302001';
let fixture: AccountingFixture;
let me: Caller;
let jobs: Job[];

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 1000 });
  me = await fixture.user(user);
  const zip = await createZip({ 'run.sh': '#!/bin/sh\nhead -c 2500 /dev/zero > out\n' });
  jobs = [await runJob(me, { command: 'sbatch run.sh', core_number: 2 }, zip), await runJob(me, { command: 'exit 1' })];
  await topUp(fixture.admin, user, 400);
  await withdraw(fixture.admin, user, 100);
  await topUp(fixture.admin, user, 30, { resource: 'space' });
  const reason = 'a reason, with "quotes", a comma\nand two lines';
  const transfer = { from: user, to: adminId, resource: 'time', amount: 50, reason };
  await postCreated(fixture.admin, `/admin/grants/${defaultProjectPath}/transfers/`, transfer);
  const [first] = jobs;
  assert.ok(first);
  await me.send('DELETE', jobPath(first));
  await postCreated(fixture.admin, `/admin/grants/${defaultProjectPath}/refunds/`, {
    job_id: first.job_id,
    amount: 1,
    reason: '=1+1',
  });
});
after(async () => {
  await assertLedgerBalances(fixture.admin);
  await fixture.dispose();
});

describe('a statement', () => {
  test('opens with nothing, tells every movement in its order, and closes with what is left', async () => {
    const { time, space } = await assertStatementAddsUp(me);
    assert.deepEqual([time.unit, space.unit], ['seconds', 'KB']);
    assert.deepEqual([time.opening_balance, space.opening_balance], [0, 0]);
    assert.deepEqual(
      time.movements.map(({ kind }) => kind),
      ['grant', 'reserve', 'charge', 'reserve', 'charge', 'top_up', 'withdraw', 'transfer', 'refund'],
    );
    assert.deepEqual(
      space.movements.map(({ kind }) => kind),
      ['grant', 'reserve', 'charge', 'reserve', 'release', 'top_up', 'free'],
    );
    const ids = [time, space].map(({ movements }) => movements.map(({ id }) => id));
    for (const list of ids)
      assert.deepEqual(
        list,
        list.toSorted((a, b) => a - b),
      );
  });

  test('says who, why, and for which job', async () => {
    const { time } = await getStatement(me);
    const [grant, reserve, charge] = time.movements;
    assert.deepEqual([grant?.actor, grant?.job_id], ['bursar', null]);
    assert.deepEqual([reserve?.actor, reserve?.job_id], [user, jobs[0]?.job_id]);
    assert.deepEqual([charge?.actor, charge?.job_id, charge?.reason], ['bursar', jobs[0]?.job_id, 'used: succeeded']);
    const topped = time.movements.find(({ kind }) => kind === 'top_up');
    assert.deepEqual([topped?.actor, topped?.reason, topped?.change], [adminId, 'more is needed', 400]);
    const moved = time.movements.find(({ kind }) => kind === 'transfer');
    assert.deepEqual([moved?.change, moved?.reason], [-50, 'a reason, with "quotes", a comma\nand two lines']);
  });

  test('names its user, project and range', async () => {
    const statement = await getStatement(me);
    assert.deepEqual(
      [statement.user, statement.project_hpc, statement.project_name],
      [user, 'HPC_ONE', 'proj_hpc_one_01'],
    );
    assert.ok(statement.from < statement.to, `${statement.from} ${statement.to}`);
  });

  test('is there for one who has done nothing, and for one whom the project has removed', async () => {
    await assertStatementAddsUp(await fixture.user('302002'));
    const removed = await fixture.user('302003');
    await setMember(fixture.admin, defaultProjectPath, '302003', 'removed', 'left the group');
    await assertStatementAddsUp(removed);
  });

  test('of a project that one is no member of is 404, and so is what does not exist', async () => {
    const project = await createProject(fixture.admin, 'others', [], { timeSeconds: 10 });
    for (const [path, code] of [
      [`/quotas/${project}/statement/`, 'quota_unknown'],
      ['/quotas/hpc_one/nowhere/statement/', 'project_unknown'],
      ['/quotas/hpc_three/proj_hpc_one_01/statement/', 'system_unknown'],
    ] as const) {
      assertProblem(await me.get(path), { status: 404, code });
    }
    const answer = await me.send('POST', `/quotas/${defaultProjectPath}/statement/`);
    assertProblem(answer, { status: 405, code: 'method_not_allowed' });
    const nobody = createCaller(fixture.server.url, null);
    assertProblem(await nobody.get(`/quotas/${defaultProjectPath}/statement/`), { status: 401, code: 'token_missing' });
  });

  test('of a user is read by administrators as that user reads it, and by nobody else', async () => {
    const range = `?to=${encodeURIComponent(new Date(Date.now() + 1000).toISOString())}`;
    const own = await me.get(`/quotas/${defaultProjectPath}/statement/${range}`);
    const shown = await fixture.admin.get(`/admin/quotas/${user}/${defaultProjectPath}/statement/${range}`);
    assert.deepEqual([shown.status, withoutRate(shown.body)], [200, withoutRate(own.body)]);
    for (const id of [user, '302002']) {
      const refused = await (await fixture.user('302002')).get(`/admin/quotas/${id}/${defaultProjectPath}/statement/`);
      assertProblem(refused, { status: 403, code: 'forbidden' });
    }
    assertProblem(await fixture.admin.get(`/admin/quotas/999999/${defaultProjectPath}/statement/`), {
      status: 404,
      code: 'user_unknown',
    });
  });

  /** The rate is reckoned up to the moment of asking. */
  function withoutRate(body: unknown) {
    const { time, ...rest } = body as Statement;
    return { ...rest, time: { ...time, burn_rate_per_day: 0, runs_out_at: null } };
  }
});

describe('the ranges of a statement', () => {
  const at = (moment: string) => encodeURIComponent(moment);

  test('chain: wherever it is cut, the closing of one is the opening of the next, and nothing is lost', async () => {
    const whole = await getStatement(me);
    const moments = [...whole.time.movements, ...whole.space.movements].map((movement) => movement.at).sort();
    // On the very millisecond of a movement, and between.
    const cuts = [...new Set(moments.flatMap((moment) => [moment, new Date(Date.parse(moment) + 1).toISOString()]))];
    const ranges = [undefined, ...cuts].map((from, index) => ({ from, to: cuts[index] }));
    const parts: Statement[] = [];
    for (const { from, to } of ranges) {
      const query = [from && `from=${at(from)}`, to && `to=${at(to)}`].filter(Boolean).join('&');
      parts.push(await getStatement(me, defaultProjectPath, `?${query}`));
    }
    for (const resource of ['time', 'space'] as const) {
      const sides = parts.map((part): AccountStatement => part[resource]);
      assert.equal(sides[0]?.opening_balance, 0);
      for (const [index, side] of sides.entries()) {
        const next = sides[index + 1];
        if (next !== undefined) assert.equal(side.closing_balance, next.opening_balance, JSON.stringify(cuts[index]));
        for (const { at: moment } of side.movements) {
          const { from = '', to = '9' } = ranges[index] ?? {};
          assert.ok(moment >= from && moment < to, `${from} ${moment} ${to}`);
        }
      }
      assert.deepEqual(
        sides.flatMap(({ movements }) => movements),
        whole[resource].movements,
      );
      assert.equal(sides.at(-1)?.closing_balance, whole[resource].closing_balance);
    }
  });

  test('are told back, and may be days, moments of any zone, and in the future', async () => {
    const statement = await getStatement(
      me,
      defaultProjectPath,
      `?from=2020-01-31&to=${at('2100-01-01T01:00:00+01:00')}`,
    );
    assert.deepEqual([statement.from, statement.to], ['2020-01-31T00:00:00.000Z', '2100-01-01T00:00:00.000Z']);
    assert.equal(statement.time.closing_balance, (await getStatement(me)).time.closing_balance);
  });

  test('before anything happened are empty, and those after everything hold the balance', async () => {
    const early = await getStatement(me, defaultProjectPath, '?from=2001-01-01&to=2002-01-01');
    assert.deepEqual(
      [early.time.opening_balance, early.time.closing_balance, early.time.movements],
      [0, 0, []],
      'nothing was there',
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
    test(`${query} is 400`, async () => {
      const answer = await me.get(`/quotas/${defaultProjectPath}/statement/${query}`);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.headers.get('content-type'), 'application/problem+json');
    });
  }

  test('that are no moments in ISO 8601 are 400, and never a guess at what was meant', async () => {
    const taken: string[] = [];
    for (const text of ['1', 'foo 1', '2026-02-31', '01/31/2026', 'Jan 2026']) {
      const { status, body } = await me.get<Statement>(`/quotas/${defaultProjectPath}/statement/?from=${at(text)}`);
      if (status !== 400) taken.push(`${text} as ${body.from}`);
    }
    assert.deepEqual(taken, []);
  });
});

describe('the burn rate', () => {
  test('is what was used a day, refunds taken off, reckoned over a day at the least', async () => {
    const { time } = await getStatement(me);
    const used = time.movements.reduce((sum, movement) => sum + movement.used, 0);
    assert.ok(used > 0);
    assert.equal(time.burn_rate_per_day, used, 'all of it was used today');
  });

  test('tells the day on which the time runs out', async () => {
    const caller = await fixture.user('302010');
    await runJob(caller, { command: 'true', core_number: 100, runtime: 0.1 });
    const { movements } = (await getStatement(caller)).time;
    const used = movements.at(-1)?.used ?? Number.NaN;
    const before = Date.now();
    const { time } = await getStatement(caller);
    const after = Date.now();
    assert.equal(time.burn_rate_per_day, used);
    const runsOut = Date.parse(time.runs_out_at ?? '');
    const wait = (time.closing_balance / used) * 86_400_000;
    assert.ok(runsOut >= before + wait - 1 && runsOut <= after + wait + 1, time.runs_out_at ?? 'never');
  });

  test('of nothing is zero, and never runs out', async () => {
    const { time } = await getStatement(await fixture.user('302011'));
    assert.deepEqual([time.burn_rate_per_day, time.runs_out_at], [0, null]);
  });

  test('of what is used up already has run out now, not in the past', async () => {
    const caller = await fixture.user('302012');
    await withdraw(fixture.admin, '302012', granted - 1);
    await runJob(caller, { command: 'true', runtime: 1 / 3600 });
    const before = Date.now();
    const { time } = await getStatement(caller);
    assert.ok(time.closing_balance <= 0);
    assert.ok(Date.parse(time.runs_out_at ?? '') >= before, time.runs_out_at ?? 'never');
  });
});

describe('a statement as CSV', () => {
  const path = `/quotas/${defaultProjectPath}/statement/`;

  test('is asked for by Accept or by ?format=csv, and the same either way', async () => {
    const caller = await fixture.uncheckedUser(user);
    const byAccept = await caller.send('GET', path, { accept: 'text/csv' });
    const byFormat = await caller.get(`${path}?format=csv`);
    for (const answer of [byAccept, byFormat]) {
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8');
    }
    assert.equal(byAccept.text, byFormat.text);
    const json = await caller.send('GET', `${path}?format=json`, { accept: 'text/csv' });
    assert.equal(json.headers.get('content-type'), 'application/json', 'what the path says goes first');
  });

  test('has a line for every movement, with the figures of the JSON', async () => {
    const { text } = await (await fixture.uncheckedUser(user)).get(`${path}?format=csv`);
    const [header, ...lines] = parseCsv(text);
    const { time, space } = await getStatement(me);
    assert.deepEqual(header, [
      'resource',
      'unit',
      'id',
      'at',
      'kind',
      'change',
      'balance',
      'used',
      'job_id',
      'actor',
      'reason',
    ]);
    const rows = [time, space].flatMap((side) =>
      side.movements.map((m) => [
        side === time ? 'time' : 'space',
        side.unit,
        String(m.id),
        m.at,
        m.kind,
        String(m.change),
        String(m.balance),
        String(m.used),
        m.job_id ?? '',
        m.actor,
        m.reason === '=1+1' ? "'=1+1" : m.reason,
      ]),
    );
    assert.deepEqual(lines, rows);
  });

  test('keeps a spreadsheet from taking a reason for a formula', async () => {
    const { text } = await (await fixture.uncheckedUser(user)).get(`${path}?format=csv`);
    assert.match(text, /,'=1\+1\r\n/);
    assert.doesNotMatch(text, /,=1/);
  });

  test('takes a range, and refuses as the JSON does', async () => {
    const caller = await fixture.uncheckedUser(user);
    const { text } = await caller.get(`${path}?format=csv&to=2001-01-01`);
    assert.equal(parseCsv(text).length, 1, 'the header alone');
    assertProblem(await caller.get(`${path}?format=csv&from=never`), { status: 400, code: 'bad_request' });
  });

  test('of a user is there for administrators', async () => {
    const own = await (await fixture.uncheckedUser(user)).get(`${path}?format=csv`);
    const shown = await (await fixture.uncheckedUser(adminId)).get(
      `/admin/quotas/${user}/${defaultProjectPath}/statement/?format=csv`,
    );
    assert.equal(shown.text, own.text);
  });
});
