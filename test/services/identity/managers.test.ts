import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { allScopes } from '../../../src/domain/identity/policy.ts';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import { type Caller, createCaller, type Job, type Quota } from '../../support/api.ts';
import type { PublicEvent } from '../../support/event-stream.ts';
import { jobPath, waitForGoScript } from '../../support/jobs.ts';
import { assertLedgerBalances, createProject, postAsAdmin, runJob, submitJob } from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { sendJson } from '../../support/webhooks.ts';

interface Timeline {
  entries: { type: string; reason: string | null; by: string | null }[];
}

// The rights of the manager of a project, and their limits.

const [managerId, memberId] = ['302601', '302602'];
const reason = 'because of a test';
let fixture: AccountingFixture;
let manager: Caller;
let member: Caller;
let managed: string;
let other: string;

before(async () => {
  fixture = await openAccountingFixture();
  member = await fixture.user(memberId);
  const token = await fixture.server.token(managerId, { scopes: allScopes });
  manager = createCaller(fixture.server.url, token);
  const grant = { timeSeconds: 10_000, spaceKb: 1000 };
  managed = await createProject(fixture.admin, 'managed', [managerId, memberId], grant);
  other = await createProject(fixture.admin, 'other', [managerId, memberId], grant);
  await setManager('active');
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

async function setManager(status: 'active' | 'banned'): Promise<void> {
  const body = JSON.stringify({ status, role: 'manager', reason });
  const path = `/admin/projects/${managed}/members/${managerId}/`;
  const response = await fixture.admin.send('PUT', path, { 'content-type': 'application/json' }, body);
  assert.deepEqual([response.status, (response.body as { role: string }).role], [200, 'manager']);
}

const queryOf = (project: string) => {
  const [hpc, name] = project.split('/');
  return `?hpc=${hpc}&project_name=${name}`;
};

test('a manager has the administrative scopes, other members do not', async () => {
  const scopesOf = async (caller: Caller) => (await caller.get<{ scopes: string[] }>('/me/')).body.scopes;
  const token = await fixture.server.token(memberId, { scopes: allScopes });
  assert.ok((await scopesOf(manager)).includes('admin:read'));
  assert.ok(!(await scopesOf(createCaller(fixture.server.url, token))).includes('admin:read'));
});

test('a manager reads the jobs, the sizes of files, the quotas and the statements of the project', async () => {
  const job = await runJob(member, { command: 'echo secret > result', runtime: 0.1 }, undefined, managed);
  const { body: jobs } = await manager.get<Job[]>(`/admin/jobs/${queryOf(managed)}`);
  assert.ok(jobs.some(({ job_id }) => job_id === job.job_id));
  assert.equal((await manager.get(`/admin${jobPath(job)}`)).status, 200);
  assert.equal((await manager.get(`/admin/quotas/${memberId}/${managed}/statement/`)).status, 200);
  const files = `/admin${jobPath(job).replace('/jobs/', '/files/')}`;
  const { body: list } = await manager.get<{ path: string }[]>(files);
  assert.deepEqual(
    list.map(({ path }) => path),
    ['result'],
  );
  for (const path of [`${files}result`, `${files}?archive=zip`, `/admin${jobPath(job)}log/`])
    assertProblem(await manager.get(path), { status: 403, code: 'forbidden' });
});

test('a manager reads the usage of the project, and is told to name it', async () => {
  const usage = `/admin/usage/${queryOf(managed)}`;
  await runJob(member, { command: 'true', runtime: 0.1 }, undefined, managed);
  await runJob(member, { command: 'true', runtime: 0.1 }, undefined, other);
  type Usage = { user: string; project_name: string; jobs: number };
  const { body: all } = await fixture.admin.get<Usage[]>('/admin/usage/');
  const inProject = all.filter(({ project_name: name }) => name === 'managed');
  assert.ok(inProject.length > 0 && inProject.length < all.length);
  assert.deepEqual((await manager.get(usage)).body, inProject);
  assert.deepEqual((await fixture.admin.get(usage)).body, inProject);
  const ofMember = inProject.filter(({ user }) => user === memberId);
  assert.deepEqual((await manager.get(`/admin/usage/${memberId}/${queryOf(managed)}`)).body, ofMember);
  assert.deepEqual((await member.get(`/usage/${queryOf(managed)}`)).body, ofMember);
  assert.deepEqual((await fixture.admin.get('/admin/usage/?hpc=hpc_two')).body, []);
  assert.equal((await fixture.admin.get('/admin/usage/?hpc=hpc_one&project_name=none')).status, 404);

  const unnamed = await manager.get<{ detail: string }>('/admin/usage/');
  assertProblem(unnamed, { status: 403, code: 'forbidden' });
  assert.match(unnamed.body.detail, /A manager names the project, with its system: hpc and project_name\./);
  const foreign = await manager.get<{ detail: string }>(`/admin/usage/${queryOf(other)}`);
  assertProblem(foreign, { status: 403, code: 'forbidden' });
  assert.match(foreign.body.detail, /Ask an administrator for the role\./);
});

test('a manager cancels and deletes a job of a member, who is told why and by which role', async () => {
  const job = await submitJob(member, { command: waitForGoScript, runtime: 0.1 }, undefined, managed);
  const path = `/admin${jobPath(job)}`;
  const short = await sendJson(manager, 'POST', `${path}cancel/`, { reason: 'ab' });
  assert.match(short.text, /reason must have at least three characters/);
  for (const body of [{}, { reason: ' x ' }, { reason: 'x'.repeat(501) }])
    assertProblem(await sendJson(manager, 'POST', `${path}cancel/`, body), { status: 400, code: 'invalid_body' });
  assert.equal((await manager.send('POST', `${path}cancel/`)).status, 400);
  assert.equal((await sendJson(manager, 'POST', `${path}cancel/`, { reason: 'blocks the queue' })).status, 202);
  const repeated = await sendJson(manager, 'POST', `${path}cancel/`, { reason: 'once more' });
  assert.ok(repeated.status === 200 || repeated.status === 202, repeated.text);
  await member.waitUntilFinished(job);
  for (const query of ['', '?reason=', `?reason=${'x'.repeat(501)}`])
    assertProblem(await manager.send('DELETE', path + query), { status: 400, code: 'bad_request' });
  assert.equal((await manager.send('DELETE', `${path}?reason=private%20data`)).status, 200);
  assert.equal((await manager.send('DELETE', `${path}?reason=once%20more`)).status, 200);

  const told = [
    ['job.cancel_requested', 'blocks the queue', 'project_manager'],
    ['job.deleted', 'private data', 'project_manager'],
  ];
  const isTold = ([type = '']: (string | null)[]) => type === 'job.cancel_requested' || type === 'job.deleted';
  const { body: page } = await member.get<{ events: PublicEvent[] }>('/events/?limit=1000');
  const events = page.events.filter((event) => event.job?.job_id === job.job_id);
  assert.deepEqual(
    events.map(({ type, data }) => [type, data.reason as string, data.by as string]).filter(isTold),
    told,
  );
  assert.match(String(events.find(({ type }) => type === 'job.cancel_requested')?.data.stage), /^(QUEUED|RUNNING)$/);
  assert.ok(!JSON.stringify(events).includes(managerId), 'the owner is told the role, not the person');
  const { body: timeline } = await member.get<Timeline>(`${jobPath(job)}timeline/`);
  assert.deepEqual(timeline.entries.map(({ type, reason: why, by }) => [type, why, by]).filter(isTold), told);

  const records = await fixture.query<{ action: string; details: string }>(
    'select action, details from audit where actor = ? and subject = ? order by id',
    managerId,
    `${managed}/${job.job_id}`,
  );
  assert.deepEqual(
    records.map(({ action, details }) => [action, JSON.parse(details)]),
    [
      ['job.cancel', { owner: memberId, reason: 'blocks the queue' }],
      ['job.delete', { owner: memberId, reason: 'private data' }],
    ],
  );
});

test('somebody who acts on an own job through the path of administrators is the owner', async () => {
  const job = await submitJob(manager, { command: waitForGoScript, runtime: 0.1 }, undefined, managed);
  assert.equal((await sendJson(manager, 'POST', `/admin${jobPath(job)}cancel/`, { reason: 'mine' })).status, 202);
  await manager.waitUntilFinished(job);
  const { body: timeline } = await manager.get<Timeline>(`${jobPath(job)}timeline/`);
  assert.ok(timeline.entries.every(({ type, by }) => type !== 'job.cancel_requested' && by === null));
});

test('a manager distributes the pool, but does not change it', async () => {
  const timeLeft = async () => Number((await member.get<Quota>(`/quotas/${managed}/`)).body.time_left);
  const before = await timeLeft();
  const path = `/admin/grants/${managed}/members/${memberId}/`;
  const change = { kind: 'withdraw', resource: 'time', amount: 1000, reason };
  assertProblem(await postAsAdmin(manager, path, change), { status: 403, code: 'forbidden' });
  assert.equal((await postAsAdmin(manager, path, { ...change, source: 'pool' })).status, 201);
  assert.equal(await timeLeft(), before - 1000);
  const transfer = { from: managerId, to: memberId, resource: 'time', amount: 500, reason };
  assert.equal((await postAsAdmin(manager, `/admin/grants/${managed}/transfers/`, transfer)).status, 201);
  assert.equal(await timeLeft(), before - 500);
  assertProblem(await postAsAdmin(manager, `/admin/grants/${managed}/`, change), { status: 403, code: 'forbidden' });
});

test('a manager is an ordinary member of other projects, and of the own one once banned', async () => {
  const allPaths = [`/admin/jobs/${queryOf(other)}`, '/admin/jobs/', `/admin/quotas/${memberId}/${other}/`];
  for (const path of [...allPaths, '/admin/users/'])
    assertProblem(await manager.get(path), { status: 403, code: 'forbidden' });
  await setManager('banned');
  assertProblem(await manager.get(`/admin/jobs/${queryOf(managed)}`), { status: 403, code: 'forbidden' });
  await setManager('active');
  assert.equal((await manager.get(`/admin/jobs/${queryOf(managed)}`)).status, 200);
});

test('a token of a manager needs the scope for administration', async () => {
  const everyday = await fixture.uncheckedUser(managerId);
  assertProblem(await everyday.get(`/admin/jobs/${queryOf(managed)}`), { status: 403, code: 'insufficient_scope' });
});
