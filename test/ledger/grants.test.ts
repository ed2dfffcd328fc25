import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Caller, Job, Quota } from '../support/api.ts';
import { gate, pathOf } from '../support/jobs.ts';
import {
  type Account,
  act,
  acted,
  adminId,
  assertBalanced,
  assertExplained,
  type Bench,
  home,
  movementsOf,
  newProject,
  openBench,
  ranJob,
  setMember,
  statementOf,
  submitted,
  topUp,
  withdraw,
} from '../support/ledger.ts';
import { assertProblem } from '../support/refusals.ts';

// What administrators move, by POST /admin/grants/…: each act once, with a reason, and within what there is.

const reason = 'because of a test';
let bench: Bench;
let admin: Caller;

before(async () => {
  bench = await openBench({ timeSeconds: 10_000, spaceKb: 100 });
  admin = bench.admin;
});
after(async () => {
  await assertBalanced(bench.admin);
  await bench.dispose();
});

let projects = 0;
/** A project of their own for two users, 10,000 seconds and 100 KB each, and nothing in reserve. */
async function projectOf(...members: string[]): Promise<string> {
  for (const member of members) await bench.user(member);
  projects += 1;
  return await newProject(admin, `grants_${projects}`, members, { timeSeconds: 10_000, spaceKb: 100 });
}

const leftOf = async (user: string, project: string) =>
  (await bench.admin.get<Quota>(`/admin/quotas/${user}/${project}/`)).body;

/** The pool as it is, found by an act that changes next to nothing. */
async function poolOf(project: string, resource: 'time' | 'space' = 'time'): Promise<Account> {
  const one = { resource, amount: 1, reason };
  await acted(bench.admin, `/admin/grants/${project}/`, { kind: 'top_up', ...one });
  const [pool] = await acted(bench.admin, `/admin/grants/${project}/`, { kind: 'withdraw', ...one });
  assert.ok(pool);
  return pool;
}

const units = { time: ['seconds', 10_000], space: ['KB', 100] } as const;

for (const resource of ['time', 'space'] as const) {
  const [unit, each] = units[resource];
  const seen = (quota: Quota) => (resource === 'time' ? quota.time_left : quota.space_left);

  describe(`a member's quota of ${resource}`, () => {
    test('grows with the pool, and shrinks with it (source new)', async () => {
      const project = await projectOf('302101', '302102');
      const [pool, cap] = await topUp(admin, '302101', 30, { project, resource });
      const account = { resource, unit, held: 0, used: 0 };
      assert.deepEqual(pool, { ...account, user: null, granted: 2 * each + 30, available: 2 * each + 30 });
      assert.deepEqual(cap, { ...account, user: '302101', granted: each + 30, available: each + 30 });
      assert.equal(seen(await leftOf('302101', project)), each + 30);
      assert.equal(seen(await leftOf('302102', project)), each, 'nobody else is touched');

      const [smaller, less] = await withdraw(admin, '302101', 40, { project, resource });
      assert.deepEqual([smaller?.granted, less?.granted], [2 * each - 10, each - 10]);
      assert.equal(seen(await leftOf('302101', project)), each - 10);
    });

    test('grows out of the reserve, and shrinks back into it (source pool)', async () => {
      const project = await projectOf('302101', '302102');
      const fromReserve = { kind: 'top_up', resource, amount: 25, reason, source: 'pool' };
      const path = `/admin/grants/${project}/302101/`;
      assertProblem(await act(admin, path, fromReserve), { status: 409, code: 'conflict', says: /: 0\.$/ });
      await acted(admin, `/admin/grants/${project}/`, { kind: 'top_up', resource, amount: 25, reason });
      const [pool, cap] = await acted(admin, path, fromReserve);
      assert.deepEqual([pool?.granted, cap?.granted], [2 * each + 25, each + 25]);
      assertProblem(await act(admin, path, { ...fromReserve, amount: 1 }), { status: 409, code: 'conflict' });

      const [same, back] = await withdraw(admin, '302101', 60, { project, resource, source: 'pool' });
      assert.deepEqual([same?.granted, back?.granted], [2 * each + 25, each - 35]);
      await topUp(admin, '302102', 60, { project, resource, source: 'pool' });
      assert.equal(seen(await leftOf('302102', project)), each + 60);
    });

    test('shrinks by no more than is available, and says how much that is', async () => {
      const project = await projectOf('302101', '302102');
      for (const source of ['new', 'pool'] as const) {
        const body = { kind: 'withdraw', resource, amount: each + 1, reason, source };
        const answer = await act(admin, `/admin/grants/${project}/302101/`, body);
        assertProblem(answer, { status: 409, code: 'conflict', says: /302101/ });
      }
      assert.equal(seen(await leftOf('302101', project)), each);
      await withdraw(admin, '302101', each, { project, resource });
      assert.equal(seen(await leftOf('302101', project)), 0);
    });

    test('moves between members, and the pool stays as it is', async () => {
      const project = await projectOf('302101', '302102');
      const path = `/admin/grants/${project}/transfers/`;
      const body = { from: '302101', to: '302102', resource, amount: each - 1, reason };
      const accounts = await acted(admin, path, body);
      assert.deepEqual(
        accounts.map(({ user, granted }) => [user, granted]),
        [
          ['302101', 1],
          ['302102', 2 * each - 1],
        ],
      );
      assertProblem(await act(admin, path, { ...body, amount: 2 }), { status: 409, code: 'conflict', says: /302101/ });
      assert.equal((await poolOf(project, resource)).granted, 2 * each);
      assertProblem(await act(admin, path, { ...body, to: '302101' }), { status: 409, code: 'conflict' });
      for (const user of ['302101', '302102']) await assertExplained(await bench.user(user), project);
    });
  });

  describe(`the reserve of ${resource} of a project`, () => {
    test('grows and shrinks without anybody seeing more or less', async () => {
      const project = await projectOf('302101');
      const path = `/admin/grants/${project}/`;
      const [grown] = await acted(admin, path, { kind: 'top_up', resource, amount: 50, reason });
      assert.deepEqual([grown?.user, grown?.unit, grown?.granted], [null, unit, each + 50]);
      assert.equal(seen(await leftOf('302101', project)), each);
      const [shrunk] = await acted(admin, path, { kind: 'withdraw', resource, amount: 50, reason });
      assert.equal(shrunk?.granted, each);
    });

    test('shrinks by no more than is promised to nobody', async () => {
      const project = await projectOf('302101');
      const path = `/admin/grants/${project}/`;
      await acted(admin, path, { kind: 'top_up', resource, amount: 5, reason });
      const answer = await act(admin, path, { kind: 'withdraw', resource, amount: 6, reason });
      assertProblem(answer, { status: 409, code: 'conflict', says: /promised to nobody/ });
      assert.equal(seen(await leftOf('302101', project)), each);
    });
  });
}

for (const [resource, each] of [
  ['time', 10_000],
  ['space', 100],
] as const) {
  test(`a refusal tells amounts of ${resource} in the unit in which they were sent`, async () => {
    const project = await projectOf('302104', '302105');
    const amount = each + 1;
    for (const [suffix, body, free] of [
      ['/', { kind: 'withdraw' }, 0],
      ['/302104/', { kind: 'withdraw' }, each],
      ['/302104/', { kind: 'top_up', source: 'pool' }, 0],
      ['/transfers/', { from: '302104', to: '302105' }, each],
    ] as const) {
      const answer = await act(admin, `/admin/grants/${project}${suffix}`, { ...body, resource, amount, reason });
      const { detail } = assertProblem(answer, { status: 409, code: 'conflict' });
      assert.deepEqual([/^\d+/.exec(detail)?.[0], /(\d+)\.$/.exec(detail)?.[1]], [`${amount}`, `${free}`], detail);
    }
  });
}

test('what a job holds cannot be taken away', async () => {
  const project = await projectOf('302103');
  const me = await bench.user('302103');
  const job = await submitted(me, { command: gate, runtime: 1 }, undefined, project);
  const body = { kind: 'withdraw', resource: 'time', amount: 6401, reason };
  const path = `/admin/grants/${project}/302103/`;
  assertProblem(await act(admin, path, body), { status: 409, code: 'conflict', says: /6400/ });
  const [, cap] = await acted(admin, path, { ...body, amount: 6400 });
  assert.deepEqual([cap?.held, cap?.available], [3600, 0]);
  await me.send('DELETE', pathOf(job));
  await me.finished(job);
  await assertExplained(me, project);
});

describe('a refund', () => {
  const path = `/admin/grants/${home}/refunds/`;
  let me: Caller;
  let job: Job;
  let charged: number;

  before(async () => {
    me = await bench.user('302111');
    job = await ranJob(me, { command: 'true', core_number: 100, runtime: 0.01 });
    charged = (await movementsOf(me, job)).at(-1)?.used ?? Number.NaN;
  });

  test('gives back, in several steps, never more than the job was charged', async () => {
    assert.ok(charged >= 100);
    const refund = (amount: number) => act(admin, path, { job_id: job.job_id, amount, reason });
    assertProblem(await refund(charged + 1), { status: 409, code: 'conflict', says: new RegExp(`${charged}\\.$`) });
    assert.equal((await refund(40)).status, 201);
    assert.equal((await refund(charged - 60)).status, 201);
    assertProblem(await refund(21), { status: 409, code: 'conflict', says: /: 20\.$/ });
    assert.equal((await refund(20)).status, 201);
    assertProblem(await refund(1), { status: 409, code: 'conflict', says: /: 0\.$/ });
    assert.equal((await leftOf('302111', home)).time_left, 10_000);
    const refunds = (await movementsOf(me, job)).filter(({ kind }) => kind === 'refund');
    assert.equal(
      refunds.reduce((sum, { used }) => sum - used, 0),
      charged,
    );
    for (const { actor, reason: why } of refunds) assert.deepEqual([actor, why], [adminId, reason]);
    await assertExplained(me);
  });

  test('answers with the pool and the cap as they are after it', async () => {
    const other = await ranJob(me, { command: 'true', core_number: 10, runtime: 0.01 });
    const used = (await movementsOf(me, other)).at(-1)?.used ?? Number.NaN;
    const [pool, cap] = await acted(admin, path, { job_id: other.job_id, amount: used, reason });
    assert.deepEqual([pool?.user, cap?.user, cap?.used, cap?.available], [null, '302111', 0, 10_000]);
  });

  test('is refused for a job that was charged nothing: because it never ran, or has not ended', async () => {
    const rejected = await ranJob(me, { command: 'sbatch missing.sh' });
    const running = await submitted(me, { command: gate });
    for (const { job_id } of [rejected, running]) {
      assertProblem(await act(admin, path, { job_id, amount: 1, reason }), { status: 409, code: 'conflict' });
    }
    await me.send('DELETE', pathOf(running));
    await me.finished(running);
  });

  test('is 404 for a job that is not in that project', async () => {
    const elsewhere = await projectOf('302111');
    const body = { job_id: job.job_id, amount: 1, reason };
    assertProblem(await act(admin, `/admin/grants/${elsewhere}/refunds/`, body), { status: 404, code: 'job_unknown' });
    const unknown = { ...body, job_id: 'NO-SUCH-JOB' };
    assertProblem(await act(admin, path, unknown), { status: 404, code: 'job_unknown' });
  });

  test('of a job whose files are deleted, and whose owner is banned, is possible', async () => {
    const owner = await bench.user('302112');
    const done = await ranJob(owner, { command: 'true' });
    const used = (await movementsOf(owner, done)).at(-1)?.used ?? Number.NaN;
    await owner.send('DELETE', pathOf(done));
    await setMember(admin, home, '302112', 'banned', 'for a test');
    await acted(admin, path, { job_id: done.job_id, amount: used, reason });
    assert.equal((await leftOf('302112', home)).time_left, 10_000);
  });
});

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
    job = await ranJob(
      await bench.user('302121'),
      { command: 'true', core_number: 50, runtime: 0.01 },
      undefined,
      project,
    );
  });
  const bodyOf = (body: Record<string, unknown>) => ('job_id' in body ? { ...body, job_id: job.job_id } : body);
  const movements = async () => (await bench.rows('select id from entries')).length;

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
        const problem = assertProblem(await act(admin, `/admin/grants/${project}${suffix}`, wrong), {
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
      assertProblem(bare, { status: 400, code: 'idempotency_key_missing', says: /Idempotency-Key/ });
      for (const key of ['', 'two words', 'x'.repeat(201)]) {
        const answer = await admin.send('POST', path, { ...headers, 'idempotency-key': key }, text);
        assertProblem(answer, { status: 400, code: 'idempotency_key_missing' });
      }
      assert.equal(await movements(), before);
    });

    test(`${what}: repeated under the same key is answered the same, and done once`, async () => {
      const key = `once-${what.replace(' ', '-')}`;
      const path = `/admin/grants/${project}${suffix}`;
      const first = await act(admin, path, bodyOf(body), key);
      assert.equal(first.status, 201, first.text);
      const after = await movements();
      const again = await act(admin, path, bodyOf(body), key);
      assert.deepEqual([again.status, again.text], [201, first.text]);
      assert.equal(await movements(), after);
      // The restart comes below: what was answered is kept for it.
      answered.set(what, { path, body: bodyOf(body), key, text: first.text });
    });

    test(`${what}: another body under the same key is 422, and not done`, async () => {
      const before = await movements();
      const key = `once-${what.replace(' ', '-')}`;
      const path = `/admin/grants/${project}${suffix}`;
      const answer = await act(admin, path, { ...bodyOf(body), reason: 'another reason' }, key);
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
        const answer = await act(admin, `/admin/grants/${project}${suffix}`, wrong);
        const problem = assertProblem(answer, { status: 400, code: 'invalid_body' });
        assert.deepEqual([...new Set(problem.errors?.map((error) => error.field))], [field], answer.text);
      }
    });
  }

  test('with a reason of blanks is 400: that says nothing either', async () => {
    const taken: string[] = [];
    const other = await projectOf('302121', '302122');
    const done = await ranJob(await bench.user('302121'), { command: 'true' }, undefined, other);
    for (const [what, suffix, body] of acts) {
      const blank = { ...body, ...('job_id' in body ? { job_id: done.job_id } : {}), reason: '    ' };
      const answer = await act(admin, `/admin/grants/${other}${suffix}`, blank);
      if (answer.status !== 400) taken.push(`${what}: ${answer.status}`);
    }
    assert.deepEqual(taken, []);
  });

  const answered = new Map<string, { path: string; body: unknown; key: string; text: string }>();

  test('another administrator has keys of their own', async () => {
    const other = await bench.administrator('302129');
    const body = { kind: 'top_up', resource: 'time', amount: 1, reason };
    const before = (await leftOf('302121', project)).time_left;
    for (const caller of [admin, other]) {
      await acted(caller, `/admin/grants/${project}/302121/`, body, 'everybody-likes-this-key');
    }
    assert.equal((await leftOf('302121', project)).time_left, before + 2);
    const actors = (await statementOf(await bench.user('302121'), project)).time.movements.map(({ actor }) => actor);
    assert.deepEqual(actors.slice(-2), [adminId, '302129']);
  });

  test('an act that failed has used no key up', async () => {
    const path = `/admin/grants/${project}/302122/`;
    const { time_left } = await leftOf('302122', project);
    const body = { kind: 'withdraw', resource: 'time', amount: time_left + 5, reason };
    assert.equal((await act(admin, path, body, 'try-again')).status, 409);
    await topUp(admin, '302122', 5, { project });
    assert.equal((await act(admin, path, body, 'try-again')).status, 201);
    assert.equal((await leftOf('302122', project)).time_left, 0);
  });

  test('is 404 for what does not exist: system, project, user, member', async () => {
    const body = { kind: 'top_up', resource: 'time', amount: 1, reason };
    await bench.user('302128');
    for (const [path, code] of [
      ['/admin/grants/hpc_three/proj_hpc_one_01/', 'system_unknown'],
      ['/admin/grants/hpc_one/nowhere/', 'project_unknown'],
      [`/admin/grants/${project}/999999/`, 'quota_unknown'],
      [`/admin/grants/${project}/302128/`, 'quota_unknown'],
      [`/admin/grants/${project}/somebody/`, 'not_found'],
    ] as const) {
      assertProblem(await act(admin, path, body), { status: 404, code });
    }
    const transfer = { from: '302121', to: '302128', resource: 'time', amount: 1, reason };
    const answer = await act(admin, `/admin/grants/${project}/transfers/`, transfer);
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
      const { status, text } = await act(admin, `/admin/grants/${shared}${suffix}`, body);
      assert.ok(status === 201 || status === 409, text);
      statuses.add(status);
      if (i % 20 === 0) await assertBalanced(admin);
    }
    assert.deepEqual([...statuses].sort(), [201, 409]);
    await assertBalanced(admin);
    for (const user of users) await assertExplained(await bench.user(user), shared);
  });

  test('repeated under the same key after a restart is answered the same, and not done again', async () => {
    await bench.restart('SIGKILL');
    admin = bench.admin;
    const before = await movements();
    assert.equal(answered.size, acts.length);
    const different: string[] = [];
    for (const [what, { path, body, key, text }] of answered) {
      const again = await act(admin, path, body, key);
      assert.equal(again.status, 201, again.text);
      if (again.text !== text) different.push(`${what}: ${again.text} instead of ${text}`);
    }
    assert.deepEqual(different, []);
    assert.equal(await movements(), before);
  });
});
