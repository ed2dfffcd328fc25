import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { maxInMemoryBytes } from '../../../src/files/spool/spool.ts';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import { releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertQuotaExceeded,
  assertStatementAddsUp,
  getStatement,
  listJobMovements,
  postAsAdmin,
  postCreated,
  runJob,
} from '../../support/ledger.ts';
import { assertProblem, listFilesUnder } from '../../support/problems.ts';
import { formatRequestHead, openRawConnection } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';
import { openPeriodFixture, type PeriodFixture, reason } from './period-fixture.ts';

let fixture: PeriodFixture;
let admin: Caller;

before(async () => {
  fixture = await openPeriodFixture();
  admin = fixture.admin;
});
after(() => fixture.close());

describe('a project without a current period', () => {
  const user = '302221';
  let project: string;
  let me: Caller;
  let jobId: string;
  let charged: number;

  before(async () => {
    me = await fixture.user(user);
    project = await fixture.createProjectFor(user);
    const job = await runJob(me, { command: 'true', runtime: 0.01 }, undefined, project);
    jobId = job.job_id;
    charged = (await listJobMovements(me, job, 'time', project)).at(-1)?.used ?? Number.NaN;
    await fixture.createStartedPeriod(project, { member_seconds: 500 }, 0.2);
    await until('the period has ended', async () => {
      const { status } = await me.send('POST', `/quotes/${project}/`, { payload: '{"command":"true"}' });
      return status === 403 ? true : undefined;
    });
  });

  test('rejects jobs and quotes: 403 no_grant', async () => {
    const response = await me.submit(`/jobs/${project}/`, { command: 'true', runtime: 0.01 });
    assertProblem(response, { status: 403, code: 'no_grant', message: new RegExp(project.replace('hpc_one/', '')) });
    const quoted = await me.send('POST', `/quotes/${project}/`, { payload: '{"command":"true"}' });
    assertProblem(quoted, { status: 403, code: 'no_grant' });
  });

  test('can still be read: the quota is zero, and the statement shows what expired', async () => {
    assert.equal(await fixture.getTimeLeft(user, project), 0);
    assert.equal((await me.get(`/jobs/${project}/`)).status, 200);
    const { time } = await until('the grant has expired', async () => {
      const statement = await getStatement(me, project);
      return statement.time.closing_balance === 0 ? statement : undefined;
    });
    assert.equal(
      time.movements.filter(({ kind }) => kind === 'expire').reduce((sum, { change }) => sum + change, 0),
      -(10_000 + 500 - charged),
    );
    await assertStatementAddsUp(me, project);
  });

  test('rejects grants: 409 for the reserve, 404 or 409 for a member', async () => {
    const change = { kind: 'top_up', resource: 'time', amount: 1, reason };
    assertProblem(await postAsAdmin(admin, `/admin/grants/${project}/`, change), { status: 409, code: 'conflict' });
    const { status } = await postAsAdmin(admin, `/admin/grants/${project}/members/${user}/`, change);
    assert.ok(status === 404 || status === 409, String(status));
  });

  test('accepts a refund for a job of its last period', async () => {
    const body = { job_id: jobId, amount: charged, reason: 'the node was broken' };
    const response = await postAsAdmin(admin, `/admin/grants/${project}/refunds/`, body);
    assert.equal(response.status, 201, response.text);
    await assertStatementAddsUp(me, project);
    await assertLedgerBalances(fixture.server);
  });

  test('accepts jobs again in the next period', async () => {
    await fixture.createStartedPeriod(project, { member_seconds: 40 });
    assert.equal(await fixture.getTimeLeft(user, project), 40);
    assertQuotaExceeded(await me.submit(`/jobs/${project}/`, { command: 'true' }), { available: 40 });
    await runJob(me, { command: 'true', runtime: 40 / 3600 }, undefined, project);
  });
});

test('a refund for a job of an old period returns the accounts of that period', async () => {
  const project = await fixture.createProjectFor('302231');
  const me = await fixture.user('302231');
  const job = await runJob(me, { command: 'true', runtime: 0.01 }, undefined, project);
  const charged = (await listJobMovements(me, job, 'time', project)).at(-1)?.used ?? Number.NaN;
  await fixture.createStartedPeriod(project, { member_seconds: 123 });
  const body = { job_id: job.job_id, amount: charged, reason: 'the node was broken' };
  const [pool, cap] = await postCreated(admin, `/admin/grants/${project}/refunds/`, body);
  assert.equal(await fixture.getTimeLeft('302231', project), 123, 'the refund is not added to the new period');
  const isNewPeriod = pool?.granted === 123 && cap?.granted === 123;
  assert.ok(!isNewPeriod, `the returned accounts are those of another period: ${JSON.stringify([pool, cap])}`);
});

describe('a period that ends during an upload', () => {
  /** Sends a submission, calls `during` when the server has read the accounts and a part of the zip, and sends the rest. */
  async function submitSlowly(user: string, project: string, runtimeHours: number, during: () => Promise<unknown>) {
    const zip = await createZip({ data: randomBytes(3 * maxInMemoryBytes) });
    const headers = Object.entries({
      authorization: `Bearer ${await fixture.token(user)}`,
      'content-disposition': 'attachment; filename=job.zip',
      'content-length': String(zip.length),
      payload: JSON.stringify({ command: waitForGoScript, runtime: runtimeHours }),
    });
    const connection = await openRawConnection(fixture.server.url);
    const head = formatRequestHead({ method: 'POST', path: `/jobs/${project}/`, headers });
    await connection.write(head, zip.subarray(0, -20));
    await until('the upload is stored', () =>
      listFilesUnder(fixture.server, 'spool/incoming').length > 0 ? true : undefined,
    );
    await during();
    await connection.write(zip.subarray(-20));
    const [response] = await connection.readResponses(1);
    return response as ApiResponse<Job>;
  }

  test('is not charged: the job is held on the period in which it is accepted', async () => {
    const project = await fixture.createProjectFor('302241');
    const me = await fixture.user('302241');
    const openPeriod = () => fixture.createPeriod(project, { member_seconds: 3600 });
    const { status, text, body } = await submitSlowly('302241', project, 0.5, openPeriod);
    assert.equal(status, 201, text);
    assert.equal(await fixture.getTimeLeft('302241', project), 1800);
    await waitForStage(me, body, 'RUNNING');
    releaseJob(fixture.server, body);
    await me.waitUntilFinished(body);
    await assertStatementAddsUp(me, project);
  });

  test('does not give its time: the job needs the quota of the new period', async () => {
    const project = await fixture.createProjectFor('302242');
    const openPeriod = () => fixture.createPeriod(project, { member_seconds: 100 });
    const response = await submitSlowly('302242', project, 0.5, openPeriod);
    assertQuotaExceeded(response, { needed: 1800, available: 100 });
  });
});
