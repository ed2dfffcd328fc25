import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  defaultProject,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import type { ApiResponse, Caller, Job, Quota } from '../../support/api.ts';
import { jobPath, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  createProject,
  postAsAdmin,
  postCreated,
  runJob,
  setMember,
  submitJob,
  topUp,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';

// Listing, creating and closing projects.

interface Project {
  id: number;
  project_hpc: string;
  project_name: string;
  auto_join: boolean;
  grant_time_seconds: number;
  grant_space_kb: number;
  created_at: string;
  closed_at: string | null;
}

const granted = 50_000;
const reason = 'because of a test';
let fixture: AccountingFixture;
let admin: Caller;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 100 });
  admin = fixture.admin;
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

describe('projects', () => {
  const create = (
    body: Record<string, unknown>,
    hpc = 'hpc_one',
    key: string = randomUUID(),
  ): Promise<ApiResponse<Project>> => postAsAdmin<Project>(admin, `/admin/projects/${hpc}/`, { reason, ...body }, key);

  test('are listed for each system and for all systems', async () => {
    const { body: all } = await admin.get<Project[]>('/admin/projects/');
    const [first] = all;
    assert.deepEqual(first, {
      id: first?.id,
      project_hpc: 'HPC_ONE',
      project_name: 'proj_hpc_one_01',
      auto_join: true,
      grant_time_seconds: granted,
      grant_space_kb: 100,
      created_at: first?.created_at,
      closed_at: null,
    });
    const { body: onTwo } = await admin.get<Project[]>('/admin/projects/hpc_two/');
    assert.deepEqual(
      onTwo.map(({ project_name }) => project_name),
      ['proj_hpc_two_01', 'proj_hpc_two_02'],
    );
    assert.deepEqual(
      all.filter(({ project_hpc }) => project_hpc === 'HPC_TWO'),
      onTwo,
    );
    assertProblem(await admin.get('/admin/projects/hpc_three/'), { status: 404, code: 'system_unknown' });
  });

  test('are created with the requested values, and then listed', async () => {
    const body = { name: 'physics-2', grant_time_seconds: 60, grant_space_kb: 2 };
    const response = await create(body, 'hpc_two');
    assert.equal(response.status, 201, response.text);
    const { id, created_at, ...rest } = response.body;
    assert.ok(Number.isInteger(id) && created_at !== '');
    assert.deepEqual(rest, {
      project_hpc: 'HPC_TWO',
      project_name: 'physics-2',
      auto_join: false,
      grant_time_seconds: 60,
      grant_space_kb: 2,
      closed_at: null,
    });
    const { body: listed } = await admin.get<Project[]>('/admin/projects/hpc_two/');
    assert.deepEqual(listed.at(-1), response.body);
    const me = await fixture.user('302311');
    await setMember(admin, 'hpc_two/physics-2', '302311', 'active', reason);
    assert.equal((await me.get<Quota[]>('/quotas/hpc_two/')).body[0]?.project_name, 'physics-2');
  });

  test('with auto_join have all existing and all new users as members', async () => {
    const me = await fixture.user('302312');
    const response = await create({ name: 'for_all', auto_join: true, grant_time_seconds: 99, grant_space_kb: 1 });
    assert.equal(response.status, 201, response.text);
    const newcomer = await fixture.user('302313');
    assert.equal((await newcomer.quota('hpc_one', 'for_all')).time_left, 99);
    const { status, text } = await me.get(`/quotas/hpc_one/for_all/`);
    assert.equal(status, 200, `existing user: ${text}`);
    assert.equal((await me.quota('hpc_one', 'for_all')).time_left, 99);
  });

  test('cannot have the same name on one system: 409', async () => {
    const body = { name: 'twice', grant_time_seconds: 1 };
    assert.equal((await create(body)).status, 201);
    assertProblem(await create(body), { status: 409, code: 'conflict', message: /twice/ });
    assert.equal((await create(body, 'hpc_two')).status, 201);
    assertProblem(await create({ name: 'proj_hpc_one_01' }), { status: 409, code: 'conflict' });
    assertProblem(await create(body, 'hpc_three'), { status: 404, code: 'system_unknown' });
  });

  test('are rejected with 400 if the name cannot be used in a path or another field is invalid', async () => {
    for (const name of ['', 'Upper', '../x', 'a b', '-a', 'ä', 'x'.repeat(65), 'a/b', undefined]) {
      const { errors } = assertProblem(await create({ name }), { status: 400, code: 'invalid_body' });
      assert.deepEqual([...new Set(errors?.map(({ field }) => field))], ['name'], String(name));
    }
    for (const [field, value] of [
      ['grant_time_seconds', -1],
      ['grant_space_kb', 0.5],
      ['auto_join', 'maybe'],
      ['reason', 'x'],
      ['colour', 'red'],
    ] as const) {
      const { errors } = assertProblem(await create({ name: 'wrong', [field]: value }), {
        status: 400,
        code: 'invalid_body',
      });
      assert.deepEqual([...new Set(errors?.map((error) => error.field))], [field]);
    }
    const { body } = await admin.get<Project[]>('/admin/projects/');
    assert.ok(!body.some(({ project_name }) => project_name === 'wrong'));
  });

  test('are created once for each idempotency key', async () => {
    const first = await create({ name: 'once' }, 'hpc_one', 'project-once');
    assert.equal(first.status, 201);
    const repeated = await create({ name: 'once' }, 'hpc_one', 'project-once');
    assert.deepEqual([repeated.status, repeated.text], [201, first.text]);
    assertProblem(await create({ name: 'another' }, 'hpc_one', 'project-once'), {
      status: 422,
      code: 'idempotency_key_reused',
    });
    const headers = { 'content-type': 'application/json' };
    const withoutKey = await admin.send(
      'POST',
      '/admin/projects/hpc_one/',
      headers,
      JSON.stringify({ name: 'bare', reason }),
    );
    assertProblem(withoutKey, { status: 400, code: 'idempotency_key_missing' });
  });
});

describe('a closed project', () => {
  let project: string;
  let me: Caller;
  let job: Job;
  let running: Job;
  let closed: ApiResponse<Project>;
  const close = (key: string = randomUUID()) =>
    postAsAdmin<Project>(admin, `/admin/projects/${project}/close/`, { reason: 'the money is gone' }, key);

  before(async () => {
    me = await fixture.user('302321');
    project = await createProject(admin, 'ending', ['302321'], { timeSeconds: 9000 });
    job = await runJob(me, { command: 'true' }, undefined, project);
    running = await submitJob(me, { command: waitForGoScript }, undefined, project);
    closed = await close('close-it');
  });

  test('shows when it was closed; closing it again changes nothing', async () => {
    assert.equal(closed.status, 200, closed.text);
    assert.ok(!Number.isNaN(Date.parse(closed.body.closed_at ?? '')));
    assert.equal((await close('close-it')).text, closed.text);
    assert.equal((await close()).body.closed_at, closed.body.closed_at);
    const { body } = await admin.get<Project[]>('/admin/projects/hpc_one/');
    assert.deepEqual(
      body.find(({ project_name }) => project_name === 'ending'),
      closed.body,
    );
  });

  test('rejects jobs and quotes: 403 project_closed', async () => {
    const message = /ending is closed/;
    const response = await me.submit(`/jobs/${project}/`, { command: 'true' });
    assertProblem(response, { status: 403, code: 'project_closed', message });
    const quoted = await me.send('POST', `/quotes/${project}/`, { payload: '{"command":"true"}' });
    assertProblem(quoted, { status: 403, code: 'project_closed', message });
  });

  test('can still be read; its jobs finish and are settled, and their files can be deleted', async () => {
    assert.equal((await me.get(`/jobs/${project}/`)).status, 200);
    assert.equal((await me.get<Quota[]>('/quotas/hpc_one/')).body[0]?.project_name, 'ending');
    await waitForStage(me, running, 'RUNNING');
    releaseJob(fixture.server, running);
    assert.equal((await me.waitUntilFinished(running)).stage, 'SUCCESSFUL');
    assert.equal((await me.send('DELETE', jobPath(job))).status, 200);
    await assertStatementAddsUp(me, project);
  });

  test('stays closed after a restart, even if it is in the configuration', async () => {
    const path = '/admin/projects/hpc_two/proj_hpc_two_02/close/';
    const { status } = await postAsAdmin(admin, path, { reason: 'not used' });
    assert.equal(status, 200);
    await fixture.restart('SIGTERM');
    admin = fixture.admin;
    me = await fixture.user('302321');
    const { body } = await admin.get<Project[]>('/admin/projects/');
    assert.deepEqual(
      ['proj_hpc_one_01', 'proj_hpc_two_02', 'ending'].map(
        (name) => body.find(({ project_name }) => project_name === name)?.closed_at !== null,
      ),
      [false, true, true],
    );
    const response = await me.submit('/jobs/hpc_two/proj_hpc_two_02/', { tool: 'BASH' });
    assertProblem(response, { status: 403, code: 'project_closed' });
    assert.equal((await me.quota('hpc_two', 'proj_hpc_two_02')).time_left, granted);
  });

  test('is not joined by new users', async () => {
    const newUser = await fixture.user('302322');
    assertProblem(await newUser.get('/quotas/hpc_two/proj_hpc_two_02/'), { status: 404, code: 'quota_unknown' });
  });

  test('a user who was removed from a project with auto_join stays removed', async () => {
    await fixture.user('302323');
    await setMember(admin, defaultProjectPath, '302323', 'removed', 'went away');
    const { code, stderr } = await fixture.bursar('token', 'create', '--user', '302323');
    assert.equal(code, 0, stderr);
    const removed = await fixture.user('302323');
    const message = /went away/;
    assertProblem(await removed.submit('/jobs/hpc_one/', { command: 'true' }), {
      status: 403,
      code: 'not_a_member',
      message,
    });
    await topUp(admin, '302323', 5);
    assert.equal((await removed.quota(defaultProject.hpc, defaultProject.project)).time_left, granted + 5);
    await postCreated(admin, `/admin/grants/${defaultProjectPath}/`, {
      kind: 'top_up',
      resource: 'time',
      amount: 1,
      reason,
    });
  });
});
