import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { Caller } from '../../support/api.ts';
import { submitShellLine } from '../../support/jobs.ts';
import { createProject, postCreated } from '../../support/ledger.ts';

// GET /accounts/, /admin/accounts/{user_id}/ and /admin/projects/{hpc}/{project_name}/accounts/

interface Account {
  user: string | null;
  project_hpc: string;
  project_name: string;
  resource: 'time' | 'space';
  unit: string;
  granted: number;
  held: number;
  used: number;
  available: number;
  starts: string | null;
  ends: string | null;
}

const [user, otherUser] = ['302501', '302502'];
const granted = 50_000;
const project = '/admin/projects/hpc_one/proj_hpc_one_01/accounts/';
let fixture: AccountingFixture;
let me: Caller;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 100 });
  me = await fixture.user(user);
  await fixture.user(otherUser);
});
after(() => fixture.dispose());

const list = async (caller: Caller, path: string) => (await caller.get<Account[]>(path)).body;
const inProject = (accounts: Account[], name = 'proj_hpc_one_01') =>
  accounts.filter(({ project_name }) => project_name === name);

describe('accounts', () => {
  test('of a user are the caps and the pools of all projects, with the figures of the ledger', async () => {
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', 'sleep 60', { core_number: '2', runtime: '1' });
    const [pool, spacePool, cap, spaceCap] = inProject(await list(me, '/accounts/'));
    const { starts, ...time } = cap as Account;
    assert.ok(Date.parse(starts ?? '') <= Date.now());
    const names = { project_hpc: 'HPC_ONE', project_name: 'proj_hpc_one_01' };
    assert.deepEqual(time, {
      ...names,
      ...{ user, resource: 'time', unit: 'core-seconds', ends: null },
      ...{ granted, held: 7200, used: 0, available: granted - 7200 },
    });
    assert.deepEqual([pool?.user, pool?.resource, pool?.held], [null, 'time', 7200]);
    assert.deepEqual([spacePool?.user, spacePool?.unit], [null, 'KB']);
    assert.deepEqual([spaceCap?.granted, spaceCap?.unit, spaceCap?.starts, spaceCap?.ends], [100, 'KB', null, null]);
    await me.send('POST', `/jobs/hpc_one/proj_hpc_one_01/${job.job_id}/cancel/`);
    await me.waitUntilFinished(job);
    const ended = inProject(await list(me, '/accounts/'))[2] as Account;
    assert.deepEqual([ended.held, ended.available], [0, granted - ended.used]);
    assert.deepEqual(new Set((await list(me, '/accounts/')).map(({ project_hpc }) => project_hpc)).size, 2);
  });

  test('of a user are the same for administrators', async () => {
    assert.deepEqual(await list(fixture.admin, `/admin/accounts/${user}/`), await list(me, '/accounts/'));
    assert.equal((await fixture.admin.get('/admin/accounts/404/')).status, 404);
    assert.equal((await me.get(`/admin/accounts/${user}/`)).status, 403);
  });

  test('of a project are its pools and the caps of all members', async () => {
    const accounts = await list(fixture.admin, project);
    const mine = inProject(await list(me, '/accounts/'));
    assert.deepEqual(accounts.slice(0, 2), mine.slice(0, 2));
    assert.deepEqual(
      accounts.filter((account) => account.user === user),
      mine.slice(2),
    );
    const members = new Set(accounts.map((account) => account.user));
    assert.ok(members.has(otherUser) && members.size >= 4, [...members].join());
    const caps = accounts.filter((account) => account.user !== null && account.resource === 'time');
    assert.equal(
      accounts[0]?.granted,
      caps.reduce((sum, cap) => sum + cap.granted, 0),
    );
    assert.equal((await me.get(project)).status, 403);
    assert.equal((await fixture.admin.get(project.replace('proj', 'none'))).status, 404);
  });

  test('of a project without members are its pools', async () => {
    await createProject(fixture.admin, 'empty_project', [], { timeSeconds: 100 });
    const body = { kind: 'top_up', resource: 'time', amount: 500, reason: 'because of a test' };
    await postCreated(fixture.admin, '/admin/grants/hpc_one/empty_project/', body);
    const accounts = await list(fixture.admin, '/admin/projects/hpc_one/empty_project/accounts/');
    assert.deepEqual(
      accounts.map((account) => [account.user, account.resource, account.available]),
      [
        [null, 'time', 500],
        [null, 'space', 0],
      ],
    );
  });

  test('of time are those of the current period only', async () => {
    const starts = new Date(Date.now() + 3_600_000).toISOString();
    const body = { starts, member_seconds: 10, reserve_seconds: 0, reason: 'because of a test' };
    await postCreated(fixture.admin, '/admin/grants/hpc_one/proj_hpc_one_01/periods/', body);
    const [pool, , cap] = inProject(await list(me, '/accounts/'));
    assert.deepEqual([pool?.ends, cap?.ends, cap?.granted], [starts, starts, granted]);
    assert.equal(inProject(await list(me, '/accounts/')).length, 4);
    assert.equal((await list(fixture.admin, project)).filter((account) => account.user === user).length, 2);
  });
});
