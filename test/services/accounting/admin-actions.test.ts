import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, adminId, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { Caller, Job } from '../../support/api.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  getStatement,
  postAsAdmin,
  postCreated,
  runJob,
  topUp,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { grantedProjects } from './granted-projects.ts';

// What holds for whatever administrators do by POST /admin/grants/…: a reason, a key, and once for each key.

const reason = 'because of a test';
let fixture: AccountingFixture;
let admin: Caller;

before(async () => {
  fixture = await openAccountingFixture({ ownProcess: true, timeSeconds: 10_000, spaceKb: 100 });
  admin = fixture.admin;
});
after(async () => {
  await assertLedgerBalances(fixture.admin);
  await fixture.dispose();
});

const { projectOf, leftOf } = grantedProjects(() => fixture);

const acts: [what: string, path: string, body: Record<string, unknown>][] = [
  ['a cap', '/302121/', { kind: 'top_up', resource: 'time', amount: 1, reason }],
  ['the reserve', '/', { kind: 'top_up', resource: 'time', amount: 1, reason }],
  ['a transfer', '/transfers/', { from: '302121', to: '302122', resource: 'time', amount: 1, reason }],
  ['a refund', '/refunds/', { job_id: 'X', amount: 1, reason }],
  ['a period', '/periods/', { starts: '2100-01-01T00:00:00Z', member_seconds: 1, reason }],
];

describe('every act', () => {
  let project: string;
  let job: Job;

  before(async () => {
    project = await projectOf('302121', '302122');
    job = await runJob(
      await fixture.user('302121'),
      { command: 'true', core_number: 50, runtime: 0.01 },
      undefined,
      project,
    );
  });
  const bodyOf = (body: Record<string, unknown>) => ('job_id' in body ? { ...body, job_id: job.job_id } : body);
  const movements = async () => (await fixture.query('select id from entries')).length;

  for (const [what, suffix, body] of acts) {
    test(`${what}: without a reason, or with one that says nothing, is 400 and names it`, async () => {
      const before = await movements();
      const { reason: _reason, ...silent } = bodyOf(body);
      for (const wrong of [
        silent,
        { ...silent, reason: '' },
        { ...silent, reason: 'x' },
        { ...silent, reason: null },
      ]) {
        const problem = assertProblem(await postAsAdmin(admin, `/admin/grants/${project}${suffix}`, wrong), {
          status: 400,
          code: 'invalid_body',
        });
        assert.deepEqual(
          problem.errors?.map(({ field }) => field),
          ['reason'],
        );
      }
      assert.equal(await movements(), before);
    });

    test(`${what}: without an Idempotency-Key, or with a bad one, is 400`, async () => {
      const before = await movements();
      const text = JSON.stringify(bodyOf(body));
      const headers = { 'content-type': 'application/json' };
      const path = `/admin/grants/${project}${suffix}`;
      const bare = await admin.send('POST', path, headers, text);
      assertProblem(bare, { status: 400, code: 'idempotency_key_missing', message: /Idempotency-Key/ });
      for (const key of ['', 'two words', 'x'.repeat(201)]) {
        const answer = await admin.send('POST', path, { ...headers, 'idempotency-key': key }, text);
        assertProblem(answer, { status: 400, code: 'idempotency_key_invalid' });
      }
      assert.equal(await movements(), before);
    });

    test(`${what}: repeated under the same key is answered the same, and done once`, async () => {
      const key = `once-${what.replace(' ', '-')}`;
      const path = `/admin/grants/${project}${suffix}`;
      const first = await postAsAdmin(admin, path, bodyOf(body), key);
      assert.equal(first.status, 201, first.text);
      const after = await movements();
      const again = await postAsAdmin(admin, path, bodyOf(body), key);
      assert.deepEqual([again.status, again.text], [201, first.text]);
      assert.equal(await movements(), after);
      // The restart comes below: what was answered is kept for it.
      answered.set(what, { path, body: bodyOf(body), key, text: first.text });
    });

    test(`${what}: another body under the same key is 422, and not done`, async () => {
      const before = await movements();
      const key = `once-${what.replace(' ', '-')}`;
      const path = `/admin/grants/${project}${suffix}`;
      const answer = await postAsAdmin(admin, path, { ...bodyOf(body), reason: 'another reason' }, key);
      assertProblem(answer, { status: 422, code: 'idempotency_key_reused' });
      assert.equal(await movements(), before);
    });

    test(`${what}: an unknown field, or a wrong one, is 400 and named`, async () => {
      const { amount: _amount, member_seconds: _seconds, ...rest } = bodyOf(body);
      const number = 'amount' in body ? 'amount' : 'member_seconds';
      for (const [wrong, field] of [
        [{ ...bodyOf(body), colour: 'red' }, 'colour'],
        [rest, number],
        [{ ...rest, [number]: -1 }, number],
        [{ ...rest, [number]: 1.5 }, number],
        [{ ...rest, [number]: 'many' }, number],
      ] as const) {
        const answer = await postAsAdmin(admin, `/admin/grants/${project}${suffix}`, wrong);
        const problem = assertProblem(answer, { status: 400, code: 'invalid_body' });
        assert.deepEqual([...new Set(problem.errors?.map((error) => error.field))], [field], answer.text);
      }
    });
  }

  test('with a reason of blanks is 400: that says nothing either', async () => {
    const taken: string[] = [];
    const other = await projectOf('302121', '302122');
    const done = await runJob(await fixture.user('302121'), { command: 'true' }, undefined, other);
    for (const [what, suffix, body] of acts) {
      const blank = { ...body, ...('job_id' in body ? { job_id: done.job_id } : {}), reason: '    ' };
      const answer = await postAsAdmin(admin, `/admin/grants/${other}${suffix}`, blank);
      if (answer.status !== 400) taken.push(`${what}: ${answer.status}`);
    }
    assert.deepEqual(taken, []);
  });

  const answered = new Map<string, { path: string; body: unknown; key: string; text: string }>();

  test('another administrator has keys of their own', async () => {
    const other = await fixture.administrator('302129');
    const body = { kind: 'top_up', resource: 'time', amount: 1, reason };
    const before = (await leftOf('302121', project)).time_left;
    for (const caller of [admin, other]) {
      await postCreated(caller, `/admin/grants/${project}/302121/`, body, 'everybody-likes-this-key');
    }
    assert.equal((await leftOf('302121', project)).time_left, before + 2);
    const actors = (await getStatement(await fixture.user('302121'), project)).time.movements.map(({ actor }) => actor);
    assert.deepEqual(actors.slice(-2), [adminId, '302129']);
  });

  test('an act that failed has used no key up', async () => {
    const path = `/admin/grants/${project}/302122/`;
    const { time_left } = await leftOf('302122', project);
    const body = { kind: 'withdraw', resource: 'time', amount: time_left + 5, reason };
    assert.equal((await postAsAdmin(admin, path, body, 'try-again')).status, 409);
    await topUp(admin, '302122', 5, { project });
    assert.equal((await postAsAdmin(admin, path, body, 'try-again')).status, 201);
    assert.equal((await leftOf('302122', project)).time_left, 0);
  });

  test('is 404 for what does not exist: system, project, user, member', async () => {
    const body = { kind: 'top_up', resource: 'time', amount: 1, reason };
    await fixture.user('302128');
    for (const [path, code] of [
      ['/admin/grants/hpc_three/proj_hpc_one_01/', 'system_unknown'],
      ['/admin/grants/hpc_one/nowhere/', 'project_unknown'],
      [`/admin/grants/${project}/999999/`, 'quota_unknown'],
      [`/admin/grants/${project}/302128/`, 'quota_unknown'],
      [`/admin/grants/${project}/somebody/`, 'not_found'],
    ] as const) {
      assertProblem(await postAsAdmin(admin, path, body), { status: 404, code });
    }
    const transfer = { from: '302121', to: '302128', resource: 'time', amount: 1, reason };
    const answer = await postAsAdmin(admin, `/admin/grants/${project}/transfers/`, transfer);
    assertProblem(answer, { status: 404, code: 'quota_unknown' });
  });

  test('whatever is sent, and in whatever order, the caps never promise more than the pool', async () => {
    const users = ['302126', '302127'];
    const shared = await projectOf(...users);
    let seed = 7;
    // A small generator, so that a failure can be repeated.
    const draw = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    const statuses = new Set<number>();
    for (let i = 0; i < 60; i++) {
      const resource = draw(2) === 0 ? 'time' : 'space';
      const amount = 1 + draw(resource === 'time' ? 9000 : 90);
      const [one = '', other = ''] = draw(2) === 0 ? users : users.toReversed();
      const kind = draw(2) === 0 ? 'top_up' : 'withdraw';
      const source = draw(2) === 0 ? 'new' : 'pool';
      const [suffix, body] = (
        [
          ['/', { kind, resource, amount, reason }],
          [`/${one}/`, { kind, resource, amount, source, reason }],
          ['/transfers/', { from: one, to: other, resource, amount, reason }],
        ] as const
      )[draw(3)] ?? ['/', {}];
      const { status, text } = await postAsAdmin(admin, `/admin/grants/${shared}${suffix}`, body);
      assert.ok(status === 201 || status === 409, text);
      statuses.add(status);
      if (i % 20 === 0) await assertLedgerBalances(admin);
    }
    assert.deepEqual([...statuses].sort(), [201, 409]);
    await assertLedgerBalances(admin);
    for (const user of users) await assertStatementAddsUp(await fixture.user(user), shared);
  });

  test('repeated under the same key after a restart is answered the same, and not done again', async () => {
    await fixture.restart('SIGKILL');
    admin = fixture.admin;
    const before = await movements();
    assert.equal(answered.size, acts.length);
    const different: string[] = [];
    for (const [what, { path, body, key, text }] of answered) {
      const again = await postAsAdmin(admin, path, body, key);
      assert.equal(again.status, 201, again.text);
      if (again.text !== text) different.push(`${what}: ${again.text} instead of ${text}`);
    }
    assert.deepEqual(different, []);
    assert.equal(await movements(), before);
  });
});
