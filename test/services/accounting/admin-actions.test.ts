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

// Rules for every action by POST /admin/grants/…: a reason, an idempotency key, and one execution for each key.

const reason = 'because of a test';
let fixture: AccountingFixture;
let admin: Caller;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: 10_000, spaceKb: 100 });
  admin = fixture.admin;
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

const { createProjectFor, getMemberQuota } = grantedProjects(() => fixture);

const actions: [name: string, path: string, body: Record<string, unknown>][] = [
  ['a cap', '/members/302121/', { kind: 'top_up', resource: 'time', amount: 1, reason }],
  ['the reserve', '/', { kind: 'top_up', resource: 'time', amount: 1, reason }],
  ['a transfer', '/transfers/', { from: '302121', to: '302122', resource: 'time', amount: 1, reason }],
  ['a refund', '/refunds/', { job_id: 'X', amount: 1, reason }],
  ['a period', '/periods/', { starts: '2100-01-01T00:00:00Z', member_seconds: 1, reason }],
];

describe('actions of administrators', () => {
  let project: string;
  let job: Job;

  before(async () => {
    project = await createProjectFor('302121', '302122');
    job = await runJob(
      await fixture.user('302121'),
      { command: 'true', core_number: 50, runtime: 0.01 },
      undefined,
      project,
    );
  });
  const withJobId = (body: Record<string, unknown>) => ('job_id' in body ? { ...body, job_id: job.job_id } : body);
  const countEntries = async () => (await fixture.query('select id from entries')).length;

  for (const [name, suffix, body] of actions) {
    test(`${name} without a reason, or with a too short one, is rejected with 400 and the name of the field`, async () => {
      const before = await countEntries();
      const { reason: _reason, ...withoutReason } = withJobId(body);
      for (const invalid of [
        withoutReason,
        { ...withoutReason, reason: '' },
        { ...withoutReason, reason: 'x' },
        { ...withoutReason, reason: null },
      ]) {
        const problem = assertProblem(await postAsAdmin(admin, `/admin/grants/${project}${suffix}`, invalid), {
          status: 400,
          code: 'invalid_body',
        });
        assert.deepEqual(
          problem.errors?.map(({ field }) => field),
          ['reason'],
        );
      }
      assert.equal(await countEntries(), before);
    });

    test(`${name} without an Idempotency-Key, or with an invalid one, is rejected with 400`, async () => {
      const before = await countEntries();
      const text = JSON.stringify(withJobId(body));
      const headers = { 'content-type': 'application/json' };
      const path = `/admin/grants/${project}${suffix}`;
      const withoutKey = await admin.send('POST', path, headers, text);
      assertProblem(withoutKey, { status: 400, code: 'idempotency_key_missing', message: /Idempotency-Key/ });
      for (const key of ['', 'two words', 'x'.repeat(201)]) {
        const response = await admin.send('POST', path, { ...headers, 'idempotency-key': key }, text);
        assertProblem(response, { status: 400, code: 'idempotency_key_invalid' });
      }
      assert.equal(await countEntries(), before);
    });

    test(`${name} repeated with the same key returns the same response, and is executed once`, async () => {
      const key = `once-${name.replace(' ', '-')}`;
      const path = `/admin/grants/${project}${suffix}`;
      const first = await postAsAdmin(admin, path, withJobId(body), key);
      assert.equal(first.status, 201, first.text);
      const after = await countEntries();
      const repeated = await postAsAdmin(admin, path, withJobId(body), key);
      assert.deepEqual([repeated.status, repeated.text], [201, first.text]);
      assert.equal(await countEntries(), after);
      // The test with the restart below repeats these requests.
      firstResponses.set(name, { path, body: withJobId(body), key, text: first.text });
    });

    test(`${name} with another body and the same key is rejected with 422`, async () => {
      const before = await countEntries();
      const key = `once-${name.replace(' ', '-')}`;
      const path = `/admin/grants/${project}${suffix}`;
      const response = await postAsAdmin(admin, path, { ...withJobId(body), reason: 'another reason' }, key);
      assertProblem(response, { status: 422, code: 'idempotency_key_reused' });
      assert.equal(await countEntries(), before);
    });

    test(`${name} with an unknown or invalid field is rejected with 400 and the name of the field`, async () => {
      const { amount: _amount, member_seconds: _seconds, ...rest } = withJobId(body);
      const number = 'amount' in body ? 'amount' : 'member_seconds';
      for (const [invalid, field] of [
        [{ ...withJobId(body), colour: 'red' }, 'colour'],
        [rest, number],
        [{ ...rest, [number]: -1 }, number],
        [{ ...rest, [number]: 1.5 }, number],
        [{ ...rest, [number]: 'many' }, number],
      ] as const) {
        const response = await postAsAdmin(admin, `/admin/grants/${project}${suffix}`, invalid);
        const problem = assertProblem(response, { status: 400, code: 'invalid_body' });
        assert.deepEqual([...new Set(problem.errors?.map((error) => error.field))], [field], response.text);
      }
    });
  }

  test('with a blank reason are rejected with 400', async () => {
    const accepted: string[] = [];
    const other = await createProjectFor('302121', '302122');
    const done = await runJob(await fixture.user('302121'), { command: 'true' }, undefined, other);
    for (const [name, suffix, body] of actions) {
      const blank = { ...body, ...('job_id' in body ? { job_id: done.job_id } : {}), reason: '    ' };
      const response = await postAsAdmin(admin, `/admin/grants/${other}${suffix}`, blank);
      if (response.status !== 400) accepted.push(`${name}: ${response.status}`);
    }
    assert.deepEqual(accepted, []);
  });

  const firstResponses = new Map<string, { path: string; body: unknown; key: string; text: string }>();

  test('with the same key of two administrators are both executed', async () => {
    const other = await fixture.administrator('302129');
    const body = { kind: 'top_up', resource: 'time', amount: 1, reason };
    const before = (await getMemberQuota('302121', project)).time_left;
    for (const caller of [admin, other]) {
      await postCreated(caller, `/admin/grants/${project}/members/302121/`, body, 'everybody-likes-this-key');
    }
    assert.equal((await getMemberQuota('302121', project)).time_left, before + 2);
    const actors = (await getStatement(await fixture.user('302121'), project)).time.movements.map(({ actor }) => actor);
    assert.deepEqual(actors.slice(-2), [adminId, '302129']);
  });

  test('that failed can be repeated with the same key', async () => {
    const path = `/admin/grants/${project}/members/302122/`;
    const { time_left } = await getMemberQuota('302122', project);
    const body = { kind: 'withdraw', resource: 'time', amount: time_left + 5, reason };
    assert.equal((await postAsAdmin(admin, path, body, 'try-again')).status, 409);
    await topUp(admin, '302122', 5, { project });
    assert.equal((await postAsAdmin(admin, path, body, 'try-again')).status, 201);
    assert.equal((await getMemberQuota('302122', project)).time_left, 0);
  });

  test('return 404 for an unknown system, project, user or member', async () => {
    const body = { kind: 'top_up', resource: 'time', amount: 1, reason };
    await fixture.user('302128');
    for (const [path, code] of [
      ['/admin/grants/hpc_three/proj_hpc_one_01/', 'system_unknown'],
      ['/admin/grants/hpc_one/nowhere/', 'project_unknown'],
      [`/admin/grants/${project}/members/999999/`, 'quota_unknown'],
      [`/admin/grants/${project}/members/302128/`, 'quota_unknown'],
      [`/admin/grants/${project}/somebody/`, 'not_found'],
    ] as const) {
      assertProblem(await postAsAdmin(admin, path, body), { status: 404, code });
    }
    const transfer = { from: '302121', to: '302128', resource: 'time', amount: 1, reason };
    const response = await postAsAdmin(admin, `/admin/grants/${project}/transfers/`, transfer);
    assertProblem(response, { status: 404, code: 'quota_unknown' });
  });

  test('in random order never make the caps exceed the pool', async () => {
    const users = ['302126', '302127'];
    const shared = await createProjectFor(...users);
    let seed = 7;
    // A pseudo-random generator with a fixed seed, so that a failure can be reproduced.
    const randomBelow = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    const statuses = new Set<number>();
    for (let i = 0; i < 60; i++) {
      const resource = randomBelow(2) === 0 ? 'time' : 'space';
      const amount = 1 + randomBelow(resource === 'time' ? 9000 : 90);
      const [user = '', otherUser = ''] = randomBelow(2) === 0 ? users : users.toReversed();
      const kind = randomBelow(2) === 0 ? 'top_up' : 'withdraw';
      const source = randomBelow(2) === 0 ? 'new' : 'pool';
      const [suffix, body] = (
        [
          ['/', { kind, resource, amount, reason }],
          [`/members/${user}/`, { kind, resource, amount, source, reason }],
          ['/transfers/', { from: user, to: otherUser, resource, amount, reason }],
        ] as const
      )[randomBelow(3)] ?? ['/', {}];
      const { status, text } = await postAsAdmin(admin, `/admin/grants/${shared}${suffix}`, body);
      assert.ok(status === 201 || status === 409, text);
      statuses.add(status);
      if (i % 20 === 0) await assertLedgerBalances(fixture.server);
    }
    assert.deepEqual([...statuses].sort(), [201, 409]);
    await assertLedgerBalances(fixture.server);
    for (const user of users) await assertStatementAddsUp(await fixture.user(user), shared);
  });

  test('repeated with the same key after a restart return the same response, and are not executed again', async () => {
    await fixture.restart('SIGTERM');
    admin = fixture.admin;
    const before = await countEntries();
    assert.equal(firstResponses.size, actions.length);
    const different: string[] = [];
    for (const [name, { path, body, key, text }] of firstResponses) {
      const repeated = await postAsAdmin(admin, path, body, key);
      assert.equal(repeated.status, 201, repeated.text);
      if (repeated.text !== text) different.push(`${name}: ${repeated.text} instead of ${text}`);
    }
    assert.deepEqual(different, []);
    assert.equal(await countEntries(), before);
  });
});
