import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  adminId,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import type { Caller, Job } from '../../support/api.ts';
import { assertLedgerBalances, postAsAdmin, postCreated, runJob, setMember, topUp } from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';

// The append-only record of the actions of administrators.

interface AuditRecord {
  id: number;
  at: string;
  actor: string;
  action: string;
  subject: string;
  details: Record<string, unknown>;
}

const reason = 'because of a test';
let fixture: AccountingFixture;
let admin: Caller;
let job: Job;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: 50_000, spaceKb: 100 });
  admin = fixture.admin;
  const [user] = await Promise.all(['302401', '302402', '302403'].map((id) => fixture.user(id)));
  assert.ok(user);
  job = await runJob(user, { command: 'true' });
  // So that the trail is not empty when the tests begin to add to it.
  await topUp(admin, '302403', 1);
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

describe('the audit trail', () => {
  const readTrail = async (query = '') => (await admin.get<AuditRecord[]>(`/admin/audit/${query}`)).body;

  /** Each action with its name and subject in the audit trail. */
  const actions: [name: string, subject: string, execute: () => Promise<{ status: number; text: string }>][] = [
    [
      'project.create',
      'hpc_one/audited',
      () => postAsAdmin(admin, '/admin/projects/hpc_one/', { name: 'audited', grant_time_seconds: 100, reason }),
    ],
    ['member.active', 'hpc_one/audited/302401', () => setMember(admin, 'hpc_one/audited', '302401', 'active', reason)],
    ['member.active', 'hpc_one/audited/302402', () => setMember(admin, 'hpc_one/audited', '302402', 'active', reason)],
    [
      'grant.top_up',
      'hpc_one/audited',
      () => grant('/members/302401/', { kind: 'top_up', resource: 'time', amount: 9 }),
    ],
    [
      'grant.withdraw',
      'hpc_one/audited',
      () => grant('/members/302401/', { kind: 'withdraw', resource: 'time', amount: 4 }),
    ],
    ['grant.top_up', 'hpc_one/audited', () => grant('/', { kind: 'top_up', resource: 'space', amount: 9 })],
    [
      'grant.transfer',
      'hpc_one/audited',
      () => grant('/transfers/', { from: '302401', to: '302402', resource: 'time', amount: 2 }),
    ],
    [
      'grant.refund',
      'hpc_one/proj_hpc_one_01',
      () =>
        postAsAdmin(admin, `/admin/grants/${defaultProjectPath}/refunds/`, { job_id: job.job_id, amount: 1, reason }),
    ],
    [
      'grant.period',
      'hpc_one/audited',
      () => grant('/periods/', { starts: '2100-01-01T00:00:00Z', member_seconds: 7 }),
    ],
    ['member.banned', 'hpc_one/audited/302402', () => setMember(admin, 'hpc_one/audited', '302402', 'banned', reason)],
    [
      'member.removed',
      'hpc_one/audited/302402',
      () => setMember(admin, 'hpc_one/audited', '302402', 'removed', reason),
    ],
    [
      'project.close',
      'hpc_one/audited',
      () => postAsAdmin(admin, '/admin/projects/hpc_one/audited/close/', { reason }),
    ],
  ];
  const grant = (suffix: string, body: object) =>
    postAsAdmin(admin, `/admin/grants/hpc_one/audited${suffix}`, { ...body, reason });

  test('lists every action with actor and subject, newest first', async () => {
    const before = await readTrail('?limit=1000');
    for (const [, , execute] of actions) {
      const { status, text } = await execute();
      assert.ok(status === 200 || status === 201, text);
    }
    const after = await readTrail('?limit=1000');
    const written = after.slice(0, after.length - before.length).toReversed();
    assert.deepEqual(
      written.map(({ action: name, subject }) => [name, subject]),
      actions.map(([name, subject]) => [name, subject]),
    );
    for (const { actor, at } of written) {
      assert.equal(actor, adminId);
      assert.ok(!Number.isNaN(Date.parse(at)));
    }
    assert.deepEqual(after.slice(after.length - before.length), before);
  });

  test('contains the reason of every action', async () => {
    const withoutReason = (await readTrail('?limit=1000')).filter(({ details }) => typeof details.reason !== 'string');
    assert.deepEqual([...new Set(withoutReason.map(({ action: name }) => name))], []);
  });

  test('contains users and amounts', async () => {
    const topped = (await readTrail()).find(
      ({ action: name, details }) => name === 'grant.top_up' && details.user === '302401',
    );
    assert.deepEqual([topped?.details.amount, topped?.details.resource, topped?.details.reason], [9, 'time', reason]);
    const moved = (await readTrail()).find(({ action: name }) => name === 'grant.transfer');
    assert.deepEqual([moved?.details.from, moved?.details.to, moved?.details.amount], ['302401', '302402', 2]);
  });

  test('shows amounts in the unit of the request', async () => {
    const topped = (await readTrail()).find(
      ({ action: name, details }) => name === 'grant.top_up' && details.user === null,
    );
    assert.deepEqual([topped?.details.resource, topped?.details.amount], ['space', 9]);
  });

  test('contains the administrator who acted, also for the command line', async () => {
    await topUp(await fixture.administrator('302409'), '302401', 1);
    const options = ['--user', '302401', '--time', '1', '--reason', reason, '--actor', 'night-shift'];
    const { code, stderr } = await fixture.bursar('grant', defaultProjectPath, ...options);
    assert.equal(code, 0, stderr);
    const [second, first] = await readTrail('?limit=2');
    assert.deepEqual([first?.actor, second?.actor], ['302409', 'night-shift']);
    assert.deepEqual([second?.action, second?.subject], ['grant.top_up', 'hpc_one/proj_hpc_one_01']);
  });

  test('does not contain rejected requests, or repetitions with the same idempotency key', async () => {
    const before = await readTrail('?limit=1000');
    const body = { kind: 'withdraw', resource: 'time', amount: 1e9, reason };
    assert.equal((await postAsAdmin(admin, `/admin/grants/${defaultProjectPath}/members/302403/`, body)).status, 409);
    const good = { ...body, amount: 1 };
    for (let i = 0; i < 3; i++)
      await postCreated(admin, `/admin/grants/${defaultProjectPath}/members/302403/`, good, 'audited-once');
    assert.equal((await readTrail('?limit=1000')).length, before.length + 1);
  });

  test('can be read in pages', async () => {
    const all = await readTrail('?limit=1000');
    const pages: AuditRecord[] = [];
    for (;;) {
      const before = pages.at(-1)?.id;
      const page = await readTrail(`?limit=5${before === undefined ? '' : `&before=${before}`}`);
      assert.ok(page.length <= 5);
      if (page.length === 0) break;
      pages.push(...page);
    }
    assert.deepEqual(pages, all);
    for (const query of [
      '?limit=0',
      '?limit=1001',
      '?limit=many',
      '?before=then',
      '?before=0',
      '?before=123456789',
      '?before=9007199254740992',
      '?before=1e30',
    ]) {
      assert.equal((await admin.get(`/admin/audit/${query}`)).status, 400, query);
    }
  });

  test('cannot be changed by HTTP, and the database rejects updates and deletes', async () => {
    const { text } = await admin.get('/admin/audit/?limit=1000');
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      const response = await admin.send(method, '/admin/audit/');
      assertProblem(response, { status: 405, code: 'method_not_allowed' });
      assert.equal(response.headers.get('allow'), 'GET, HEAD');
    }
    await assert.rejects(fixture.tamper("update audit set actor = 'nobody'"), /append-only/);
    await assert.rejects(fixture.tamper('delete from audit'), /append-only/);
    assert.equal((await admin.get('/admin/audit/?limit=1000')).text, text);
  });
});
