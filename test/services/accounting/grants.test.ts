import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { Caller, Quota } from '../../support/api.ts';
import { cancelJob, waitForGoScript } from '../../support/jobs.ts';
import {
  type Account,
  assertLedgerBalances,
  assertStatementAddsUp,
  postAsAdmin,
  postCreated,
  submitJob,
  topUp,
  withdraw,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { grantedProjects } from './granted-projects.ts';

// Top-ups, withdrawals and transfers by POST /admin/grants/….

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

/** Returns the pool, from the responses to a top-up and a withdrawal of the same amount. */
async function getPool(project: string, resource: 'time' | 'space' = 'time'): Promise<Account> {
  const change = { resource, amount: 1, reason };
  await postCreated(fixture.admin, `/admin/grants/${project}/`, { kind: 'top_up', ...change });
  const [pool] = await postCreated(fixture.admin, `/admin/grants/${project}/`, { kind: 'withdraw', ...change });
  assert.ok(pool);
  return pool;
}

const units = { time: ['seconds', 10_000], space: ['KB', 100] } as const;

for (const resource of ['time', 'space'] as const) {
  const [unit, grantedEach] = units[resource];
  const leftOf = (quota: Quota) => (resource === 'time' ? quota.time_left : quota.space_left);

  describe(`a member's quota of ${resource}`, () => {
    test('grows and shrinks together with the pool (source new)', async () => {
      const project = await createProjectFor('302101', '302102');
      const [pool, cap] = await topUp(admin, '302101', 30, { project, resource });
      const account = { resource, unit, held: 0, used: 0 };
      assert.deepEqual(pool, {
        ...account,
        user: null,
        granted: 2 * grantedEach + 30,
        available: 2 * grantedEach + 30,
      });
      assert.deepEqual(cap, { ...account, user: '302101', granted: grantedEach + 30, available: grantedEach + 30 });
      assert.equal(leftOf(await getMemberQuota('302101', project)), grantedEach + 30);
      assert.equal(leftOf(await getMemberQuota('302102', project)), grantedEach, 'other members are not affected');

      const [poolAfter, capAfter] = await withdraw(admin, '302101', 40, { project, resource });
      assert.deepEqual([poolAfter?.granted, capAfter?.granted], [2 * grantedEach - 10, grantedEach - 10]);
      assert.equal(leftOf(await getMemberQuota('302101', project)), grantedEach - 10);
    });

    test('grows from the reserve, and shrinks into it (source pool)', async () => {
      const project = await createProjectFor('302101', '302102');
      const fromReserve = { kind: 'top_up', resource, amount: 25, reason, source: 'pool' };
      const path = `/admin/grants/${project}/members/302101/`;
      assertProblem(await postAsAdmin(admin, path, fromReserve), {
        status: 409,
        code: 'conflict',
        message: /: 0 (seconds|KB)\.$/,
      });
      await postCreated(admin, `/admin/grants/${project}/`, { kind: 'top_up', resource, amount: 25, reason });
      const [pool, cap] = await postCreated(admin, path, fromReserve);
      assert.deepEqual([pool?.granted, cap?.granted], [2 * grantedEach + 25, grantedEach + 25]);
      assertProblem(await postAsAdmin(admin, path, { ...fromReserve, amount: 1 }), { status: 409, code: 'conflict' });

      const [poolAfter, capAfter] = await withdraw(admin, '302101', 60, { project, resource, source: 'pool' });
      assert.deepEqual([poolAfter?.granted, capAfter?.granted], [2 * grantedEach + 25, grantedEach - 35]);
      await topUp(admin, '302102', 60, { project, resource, source: 'pool' });
      assert.equal(leftOf(await getMemberQuota('302102', project)), grantedEach + 60);
    });

    test('shrinks by at most the available amount', async () => {
      const project = await createProjectFor('302101', '302102');
      for (const source of ['new', 'pool'] as const) {
        const body = { kind: 'withdraw', resource, amount: grantedEach + 1, reason, source };
        const response = await postAsAdmin(admin, `/admin/grants/${project}/members/302101/`, body);
        assertProblem(response, { status: 409, code: 'conflict', message: /302101/ });
      }
      assert.equal(leftOf(await getMemberQuota('302101', project)), grantedEach);
      await withdraw(admin, '302101', grantedEach, { project, resource });
      assert.equal(leftOf(await getMemberQuota('302101', project)), 0);
    });

    test('can be transferred between members without a change of the pool', async () => {
      const project = await createProjectFor('302101', '302102');
      const path = `/admin/grants/${project}/transfers/`;
      const body = { from: '302101', to: '302102', resource, amount: grantedEach - 1, reason };
      const accounts = await postCreated(admin, path, body);
      assert.deepEqual(
        accounts.map(({ user, granted }) => [user, granted]),
        [
          ['302101', 1],
          ['302102', 2 * grantedEach - 1],
        ],
      );
      assertProblem(await postAsAdmin(admin, path, { ...body, amount: 2 }), {
        status: 409,
        code: 'conflict',
        message: /302101/,
      });
      assert.equal((await getPool(project, resource)).granted, 2 * grantedEach);
      assertProblem(await postAsAdmin(admin, path, { ...body, to: '302101' }), { status: 409, code: 'conflict' });
      for (const user of ['302101', '302102']) await assertStatementAddsUp(await fixture.user(user), project);
    });
  });

  describe(`the reserve of ${resource} of a project`, () => {
    test('grows and shrinks without a change of member quotas', async () => {
      const project = await createProjectFor('302101');
      const path = `/admin/grants/${project}/`;
      const [grown] = await postCreated(admin, path, { kind: 'top_up', resource, amount: 50, reason });
      assert.deepEqual([grown?.user, grown?.unit, grown?.granted], [null, unit, grantedEach + 50]);
      assert.equal(leftOf(await getMemberQuota('302101', project)), grantedEach);
      const [shrunk] = await postCreated(admin, path, { kind: 'withdraw', resource, amount: 50, reason });
      assert.equal(shrunk?.granted, grantedEach);
    });

    test('shrinks by at most the amount that is not allocated to any member', async () => {
      const project = await createProjectFor('302101');
      const path = `/admin/grants/${project}/`;
      await postCreated(admin, path, { kind: 'top_up', resource, amount: 5, reason });
      const response = await postAsAdmin(admin, path, { kind: 'withdraw', resource, amount: 6, reason });
      assertProblem(response, { status: 409, code: 'conflict', message: /not allocated to any member/ });
      assert.equal(leftOf(await getMemberQuota('302101', project)), grantedEach);
    });
  });
}

for (const [resource, grantedEach] of [
  ['time', 10_000],
  ['space', 100],
] as const) {
  test(`a rejection shows amounts of ${resource} in the unit of the request`, async () => {
    const project = await createProjectFor('302104', '302105');
    const amount = grantedEach + 1;
    for (const [suffix, body, free] of [
      ['/', { kind: 'withdraw' }, 0],
      ['/members/302104/', { kind: 'withdraw' }, grantedEach],
      ['/members/302104/', { kind: 'top_up', source: 'pool' }, 0],
      ['/transfers/', { from: '302104', to: '302105' }, grantedEach],
    ] as const) {
      const response = await postAsAdmin(admin, `/admin/grants/${project}${suffix}`, {
        ...body,
        resource,
        amount,
        reason,
      });
      const { detail } = assertProblem(response, { status: 409, code: 'conflict' });
      const unit = resource === 'time' ? 'seconds' : 'KB';
      const amounts = new RegExp(`^(\\d+) ${unit} .*: (\\d+) ${unit}\\.$`).exec(detail)?.slice(1);
      assert.deepEqual(amounts, [`${amount}`, `${free}`], detail);
    }
  });
}

test('rejects a withdrawal of time that a job holds', async () => {
  const project = await createProjectFor('302103');
  const me = await fixture.user('302103');
  const job = await submitJob(me, { command: waitForGoScript, runtime: 1 }, undefined, project);
  const body = { kind: 'withdraw', resource: 'time', amount: 6401, reason };
  const path = `/admin/grants/${project}/members/302103/`;
  assertProblem(await postAsAdmin(admin, path, body), { status: 409, code: 'conflict', message: /6400/ });
  const [, cap] = await postCreated(admin, path, { ...body, amount: 6400 });
  assert.deepEqual([cap?.held, cap?.available], [3600, 0]);
  await cancelJob(me, job);
  await assertStatementAddsUp(me, project);
});
