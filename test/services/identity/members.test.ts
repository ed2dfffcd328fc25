import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  adminId,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import type { Caller, Job } from '../../support/api.ts';
import { cancelJob, jobPath, releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  createProject,
  postAsAdmin,
  runJob,
  setMember,
  submitJob,
} from '../../support/ledger.ts';
import { assertProblem, listFilesUnder } from '../../support/problems.ts';
import { bearerHeader, formatRequestHead, openRawConnection } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

// Membership of projects, and what users without an active membership can still do.

interface Member {
  user: string;
  status: string;
  reason: string;
  since: string;
}

const reason = 'because of a test';
let fixture: AccountingFixture;
let admin: Caller;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: 50_000, spaceKb: 100 });
  admin = fixture.admin;
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

const membersOf = async (project: string) => (await admin.get<Member[]>(`/admin/projects/${project}/members/`)).body;
const memberOf = async (project: string, user: string) =>
  (await membersOf(project)).find((member) => member.user === user);

/** Asserts that a user who cannot submit can still read jobs, quotas, the statement and the usage. */
async function assertReads(caller: Caller, job: Job): Promise<void> {
  for (const path of [
    '/jobs/',
    `/jobs/${defaultProjectPath}/`,
    jobPath(job),
    '/quotas/',
    `/quotas/${defaultProjectPath}/`,
    `/quotas/${defaultProjectPath}/statement/`,
    '/usage/',
  ]) {
    const { status, text } = await caller.get(path);
    assert.equal(status, 200, `${path} ${text}`);
  }
  await assertStatementAddsUp(caller);
}

describe('project members', () => {
  test('a new member gets the grant of the project and can submit', async () => {
    const me = await fixture.user('302301');
    const project = await createProject(admin, 'added', [], { timeSeconds: 700, spaceKb: 8 });
    assertProblem(await me.submit(`/jobs/${project}/`, { command: 'true' }), { status: 403, code: 'not_a_member' });
    assertProblem(await me.get(`/quotas/${project}/`), { status: 404, code: 'quota_unknown' });
    assert.deepEqual(await membersOf(project), []);

    const { status, body } = await setMember(admin, project, '302301', 'active', 'joins the group');
    assert.deepEqual([status, body.user, body.status, body.reason], [200, '302301', 'active', 'joins the group']);
    assert.deepEqual(await membersOf(project), [body]);
    const quota = await me.quota('hpc_one', 'added');
    assert.deepEqual([quota.time_left, quota.space_left, quota.user], [700, 8, '302301']);
    await runJob(me, { command: 'true', runtime: 0.01 }, undefined, project);
  });

  test('a member who is added again gets no second grant', async () => {
    const me = await fixture.user('302302');
    const project = await createProject(admin, 'again', ['302302'], { timeSeconds: 700 });
    for (const status of ['active', 'removed', 'active', 'banned', 'active']) {
      assert.equal((await setMember(admin, project, '302302', status, reason)).status, 200);
    }
    assert.equal((await me.quota('hpc_one', 'again')).time_left, 700);
    await assertStatementAddsUp(me, project);
  });

  for (const [status, code, user] of [
    ['removed', 'not_a_member', '302303'],
    ['banned', 'banned', '302304'],
  ] as const) {
    test(`a ${status} member can read, and a rejected submission states the reason`, async () => {
      const me = await fixture.user(user);
      const job = await runJob(me, { command: 'true' });
      const { body } = await setMember(admin, defaultProjectPath, user, status, `${status} for mining coins`);
      assert.deepEqual([body.status, body.reason], [status, `${status} for mining coins`]);
      assert.equal((await memberOf(defaultProjectPath, user))?.status, status);
      const message = new RegExp(`${status} for mining coins`);
      for (const path of ['/jobs/hpc_one/', `/jobs/${defaultProjectPath}/`]) {
        assertProblem(await me.submit(path, { command: 'true' }), { status: 403, code, message });
      }
      const quoted = await me.send('POST', `/quotes/${defaultProjectPath}/`, { payload: '{"command":"true"}' });
      assertProblem(quoted, { status: 403, code, message });
      await assertReads(me, job);
      assert.equal((await me.get<Job[]>('/jobs/')).body.length, 1);
    });

    test(`a ${status} member who is made active again can submit, with the same quota as before`, async () => {
      const me = await fixture.user(user);
      const { text } = await me.get(`/quotas/${defaultProjectPath}/`);
      assert.equal((await setMember(admin, defaultProjectPath, user, 'active', 'forgiven')).status, 200);
      assert.equal((await me.get(`/quotas/${defaultProjectPath}/`)).text, text);
      await runJob(me, { command: 'true' });
    });
  }

  test('jobs of a banned member keep running, and can be cancelled and deleted', async () => {
    const me = await fixture.user('302305');
    const [finishing, cancelled] = [
      await submitJob(me, { command: waitForGoScript }),
      await submitJob(me, { command: waitForGoScript }),
    ];
    await waitForStage(me, finishing, 'RUNNING');
    await setMember(admin, defaultProjectPath, '302305', 'banned', reason);
    assert.equal((await cancelJob(me, cancelled)).stage, 'CANCELED');
    releaseJob(fixture.server, finishing);
    assert.equal((await me.waitUntilFinished(finishing)).stage, 'SUCCESSFUL');
    assert.equal(((await me.send('DELETE', jobPath(finishing))).body as Job).stage, 'DELETED');
    await assertStatementAddsUp(me);
  });

  for (const [user, change, applyChange, code] of [
    ['302331', 'is banned', (project: string) => setMember(admin, project, '302331', 'banned', reason), 'banned'],
    [
      '302332',
      'loses the project',
      (project: string) => postAsAdmin(admin, `/admin/projects/${project}/close/`, { reason }),
      'project_closed',
    ],
  ] as const) {
    test(`a submission is rejected if, during its upload, the member ${change}`, async () => {
      const me = await fixture.user(user);
      const project = await createProject(admin, `upload_${code}`, [user], { timeSeconds: 7200 });
      // Larger than the memory buffer, so that the upload is written to the spool.
      const zip = await createZip({ 'a.bin': randomBytes(150_000) });
      const connection = await openRawConnection(fixture.server.url);
      const headers = [
        bearerHeader(await fixture.token(user)),
        ['content-disposition', 'attachment; filename=job.zip'],
        ['payload', '{"command":"true"}'],
        ['content-length', String(zip.length)],
      ] as const;
      connection.write(
        formatRequestHead({ method: 'POST', path: `/jobs/${project}/`, headers }),
        zip.subarray(0, 100_000),
      );
      await until('the upload has started', () =>
        listFilesUnder(fixture.server, 'spool/incoming').length > 0 ? true : undefined,
      );
      assert.equal((await applyChange(project)).status, 200);
      connection.write(zip.subarray(100_000));
      const [response] = await connection.readResponses(1);
      assert.ok(response);
      assertProblem(response, { status: 403, code });
      assert.deepEqual((await me.get('/jobs/')).body, []);
    });
  }

  test('a member who is banned in one project can submit in another', async () => {
    const me = await fixture.user('302306');
    const project = await createProject(admin, 'other', ['302306'], { timeSeconds: 700 });
    await setMember(admin, defaultProjectPath, '302306', 'banned', reason);
    await runJob(me, { command: 'true', runtime: 0.01 }, undefined, project);
  });

  test('a change of status needs a reason and a known status', async () => {
    await fixture.user('302307');
    const path = `/admin/projects/${defaultProjectPath}/members/302307/`;
    const put = (body: unknown) =>
      admin.send('PUT', path, { 'content-type': 'application/json' }, JSON.stringify(body));
    for (const [body, field] of [
      [{ status: 'banned' }, 'reason'],
      [{ status: 'banned', reason: '' }, 'reason'],
      [{ status: 'gone', reason }, 'status'],
      [{ reason }, 'status'],
      [{ status: 'banned', reason, until: 'ever' }, 'until'],
    ] as const) {
      const { errors } = assertProblem(await put(body), { status: 400, code: 'invalid_body' });
      assert.ok(
        errors?.some((error) => error.field === field),
        JSON.stringify(errors),
      );
    }
    assert.equal((await memberOf(defaultProjectPath, '302307'))?.status, 'active');
  });

  test('returns 404 for an unknown user or project, and 409 for removing or banning a user who never was a member', async () => {
    for (const user of ['999999', 'somebody', '1e5']) {
      const response = await setMember(admin, defaultProjectPath, user, 'active', reason);
      assertProblem(response, { status: 404, code: 'user_unknown' });
    }
    await fixture.user('302308');
    const project = await createProject(admin, 'no_members', [], { timeSeconds: 1 });
    for (const status of ['removed', 'banned']) {
      assertProblem(await setMember(admin, project, '302308', status, reason), { status: 409, code: 'conflict' });
    }
    assertProblem(await setMember(admin, 'hpc_one/nowhere', '302308', 'active', reason), {
      status: 404,
      code: 'project_unknown',
    });
    assertProblem(await admin.get('/admin/projects/hpc_one/nowhere/members/'), {
      status: 404,
      code: 'project_unknown',
    });
  });

  test('the list of members is ordered by joining, and shows the status of each', async () => {
    const list = await membersOf(defaultProjectPath);
    assert.equal(list[0]?.user, adminId);
    assert.deepEqual(
      ['302304', '302305', '302307'].map((user) => list.find((member) => member.user === user)?.status),
      ['active', 'banned', 'active'],
    );
    for (const { since } of list) assert.ok(!Number.isNaN(Date.parse(since)));
  });
});
