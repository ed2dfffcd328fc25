import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { maxInMemoryBytes } from '../../../src/files/spool/upload-buffer.ts';
import { type AccountingFixture, openAccountingFixture } from '../../support/accounting-fixture.ts';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import { releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertQuotaExceeded,
  assertStatementAddsUp,
  createProject,
  getStatement,
  listJobMovements,
  postAsAdmin,
  postCreated,
  runJob,
  setMember,
  submitJob,
} from '../../support/ledger.ts';
import { assertProblem, listFilesUnder } from '../../support/problems.ts';
import { formatRequestHead, openRawConnection } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

// Grants with a start and an end (POST /admin/grants/{hpc}/{project}/periods/).

interface Period {
  id: number;
  starts: string;
  ends: string | null;
}

const reason = 'the allocation of the year';
let fixture: AccountingFixture;
let admin: Caller;

before(async () => {
  fixture = await openAccountingFixture({
    adjust: (config) => {
      config.ledger = { expiryNoticeDays: 14, calendarSeconds: 0.1 };
    },
  });
  admin = fixture.admin;
});
after(async () => {
  await assertLedgerBalances(admin);
  await fixture.dispose();
});

let projectCount = 0;
async function createProjectFor(...members: string[]): Promise<string> {
  for (const member of members) await fixture.user(member);
  projectCount += 1;
  return await createProject(admin, `periods_${projectCount}`, members, { timeSeconds: 10_000 });
}

const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();

async function postPeriod(project: string, body: Record<string, unknown>, key?: string): Promise<ApiResponse<Period>> {
  return await postAsAdmin<Period>(admin, `/admin/grants/${project}/periods/`, { reason, ...body }, key);
}

/** Creates a period and waits until it has started. Without `lastsSeconds` it has no end. */
async function createStartedPeriod(
  project: string,
  body: Record<string, unknown>,
  lastsSeconds?: number,
): Promise<Period> {
  // On a busy machine a near start can be in the past when the server handles the request.
  for (const delaySeconds of [0.3, 1, 3, 10]) {
    const ends = lastsSeconds === undefined ? {} : { ends: inSeconds(delaySeconds + lastsSeconds) };
    const response = await postPeriod(project, { starts: inSeconds(delaySeconds), ...ends, ...body });
    if (response.status === 409 && response.text.includes('in the past')) continue;
    assert.equal(response.status, 201, response.text);
    const starts = Date.parse(response.body.starts);
    await until('the period starts', () => (Date.now() >= starts ? true : undefined));
    return response.body;
  }
  throw new Error('every start was in the past');
}

async function createPeriod(project: string, body: Record<string, unknown>): Promise<Period> {
  const response = await postPeriod(project, body);
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const getTimeLeft = async (user: string, project: string) => {
  const [hpc = '', name = ''] = project.split('/');
  return (await (await fixture.user(user)).quota(hpc, name)).time_left;
};

describe('a new period', () => {
  test('without a start begins now, also many times in a row', async () => {
    const project = await createProjectFor('302201');
    const responses: ApiResponse<Period>[] = [];
    // Each period ends the one before it.
    for (let i = 0; i < 25; i++) responses.push(await postPeriod(project, { member_seconds: i }));
    assert.deepEqual(
      responses.filter(({ status }) => status !== 201).map(({ status, text }) => `${status} ${text}`),
      [],
    );
    assert.equal(await getTimeLeft('302201', project), 24);
  });

  test('without a start returns the same response for the same idempotency key', async () => {
    const project = await createProjectFor('302201');
    const key = 'a-period-from-now-on';
    const first = await until('the period is created', async () => {
      const response = await postPeriod(project, { member_seconds: 5 }, key);
      return response.status === 201 ? response : undefined;
    });
    await until('the clock has moved on', () => (Date.now() > Date.parse(first.body.starts) + 5 ? true : undefined));
    assert.equal((await postPeriod(project, { member_seconds: 5 }, key)).text, first.text);
  });

  test('replaces a current period without an end, and grants its time to every member', async () => {
    const project = await createProjectFor('302202', '302203');
    await setMember(admin, project, '302203', 'removed', 'left');
    const period = await createStartedPeriod(project, { member_seconds: 777, reserve_seconds: 50 });
    assert.deepEqual([period.ends, typeof period.id], [null, 'number']);
    assert.equal(await getTimeLeft('302202', project), 777);
    assert.equal(await getTimeLeft('302203', project), 0, 'a removed member gets nothing');
    const fromReserve = { kind: 'top_up', resource: 'time', source: 'pool', reason };
    const path = `/admin/grants/${project}/members/302202/`;
    assertProblem(await postAsAdmin(admin, path, { ...fromReserve, amount: 51 }), { status: 409, code: 'conflict' });
    await postCreated(admin, path, { ...fromReserve, amount: 50 });
    assert.equal(await getTimeLeft('302202', project), 827);
  });

  test('lets the unused time of the old period expire, which the statement shows', async () => {
    const project = await createProjectFor('302204');
    const me = await fixture.user('302204');
    await createStartedPeriod(project, { member_seconds: 300 });
    const statement = await until('the old grant has expired', async () => {
      const { time } = await getStatement(me, project);
      return time.movements.some(({ kind }) => kind === 'expire') ? time : undefined;
    });
    const expired = statement.movements.find(({ kind }) => kind === 'expire');
    assert.deepEqual([expired?.change, expired?.actor], [-10_000, 'bursar']);
    assert.match(expired?.reason ?? '', /^expired with its period at \d{4}-/);
    assert.equal(await getTimeLeft('302204', project), 300);
    await assertStatementAddsUp(me, project);
    const [row] = await fixture.query<{ n: number }>(
      `select count(*) as n from entries e join accounts a on a.id = e.account_id join projects p on p.id = a.project_id
       where e.kind = 'expire' and p.name = ?`,
      project.replace('hpc_one/', ''),
    );
    assert.equal(row?.n, 2, 'one entry each for pool and cap');
  });

  test('does not touch time held in the old period, which expires when the hold is settled', async () => {
    const project = await createProjectFor('302205');
    const me = await fixture.user('302205');
    const job = await submitJob(me, { command: waitForGoScript, runtime: 2 }, undefined, project);
    await waitForStage(me, job, 'RUNNING');
    await createStartedPeriod(project, { member_seconds: 3600 });
    await until('the free time has expired', async () => {
      const { movements } = (await getStatement(me, project)).time;
      return movements.some(({ kind, change }) => kind === 'expire' && change === -2800) ? true : undefined;
    });
    assert.equal(await getTimeLeft('302205', project), 3600, 'the job does not use the new grant');
    await assertLedgerBalances(admin);

    releaseJob(fixture.server, job);
    await me.waitUntilFinished(job);
    const [, , charged] = await listJobMovements(me, job, 'time', project);
    const used = charged?.used ?? Number.NaN;
    assert.ok(used > 0);
    assert.equal(await getTimeLeft('302205', project), 3600);
    await until('the unused time of the job has expired', async () => {
      const { movements } = (await getStatement(me, project)).time;
      return movements.some(({ kind, change }) => kind === 'expire' && change === used - 7200) ? true : undefined;
    });
    await assertStatementAddsUp(me, project);
    await assertLedgerBalances(admin);
  });

  test('that starts later leaves the current one valid until then', async () => {
    const project = await createProjectFor('302206');
    await createPeriod(project, { starts: inSeconds(86_400), member_seconds: 1 });
    assert.equal(await getTimeLeft('302206', project), 10_000);
    await runJob(await fixture.user('302206'), { command: 'true' }, undefined, project);
  });

  test('that starts later is not part of the current balance', async () => {
    const project = await createProjectFor('302207');
    await createPeriod(project, { starts: inSeconds(86_400), member_seconds: 5000 });
    const { time } = await getStatement(await fixture.user('302207'), project);
    assert.equal(time.closing_balance, await getTimeLeft('302207', project), 'the balance equals the remaining quota');
  });

  test('gives members who join during it the grant of the project', async () => {
    const project = await createProjectFor('302208');
    await createStartedPeriod(project, { member_seconds: 9 });
    await fixture.user('302209');
    await setMember(admin, project, '302209', 'active', 'joins late');
    assert.equal(await getTimeLeft('302209', project), 10_000, 'the grant of the project for new members');
    await runJob(await fixture.user('302209'), { command: 'true' }, undefined, project);
  });

  test('does not change the space quota', async () => {
    const project = await createProjectFor('302210');
    const me = await fixture.user('302210');
    await runJob(me, { command: 'printf 12345' }, undefined, project);
    await createStartedPeriod(project, { member_seconds: 9 });
    assert.match((await me.get(`/quotas/${project}/`)).text, /"space_left":999\.995,/);
  });
});

describe('an invalid period', () => {
  test('that overlaps with another one is rejected with 409', async () => {
    const project = await createProjectFor('302211');
    await createPeriod(project, { starts: '2100-01-01T00:00:00Z', ends: '2101-01-01T00:00:00Z', member_seconds: 1 });
    for (const [starts, ends] of [
      ['2100-01-01T00:00:00Z', '2101-01-01T00:00:00Z'],
      ['2100-06-01T00:00:00Z', '2100-07-01T00:00:00Z'],
      ['2099-06-01T00:00:00Z', '2099-07-01T00:00:00Z'],
      ['2100-12-31T23:59:59.999Z', undefined],
      ['2099-06-01T00:00:00Z', undefined],
      ['2099-06-01T00:00:00Z', '2102-01-01T00:00:00Z'],
    ] as const) {
      const response = await postPeriod(project, {
        starts,
        ...(ends === undefined ? {} : { ends }),
        member_seconds: 1,
      });
      assertProblem(response, { status: 409, code: 'conflict', message: /overlaps with the one from 2\d{3}-/ });
    }
    for (const [starts, ends] of [
      ['2101-01-01T00:00:00Z', '2102-01-01T00:00:00Z'],
      ['2102-01-01T00:00:00Z', undefined],
    ] as const) {
      await createPeriod(project, { starts, ...(ends === undefined ? {} : { ends }), member_seconds: 1 });
    }
    const rows = await fixture.query<{ starts_at: number; ends_at: number | null }>(
      `select starts_at, ends_at from periods join projects on projects.id = project_id
       where name = ? order by starts_at`,
      project.replace('hpc_one/', ''),
    );
    for (const [index, { ends_at }] of rows.entries()) {
      const next = rows[index + 1];
      if (next !== undefined) assert.ok(ends_at !== null && ends_at <= next.starts_at, JSON.stringify(rows));
    }
    assert.equal(await getTimeLeft('302211', project), 10_000, 'the rejected periods have not ended the current one');
  });

  test('that starts in the past or ends before its start is rejected with 409', async () => {
    const project = await createProjectFor('302212');
    const past = await postPeriod(project, { starts: '2001-01-01T00:00:00Z', member_seconds: 1 });
    assertProblem(past, { status: 409, code: 'conflict', message: /past/ });
    const backwards = { starts: '2100-01-02T00:00:00Z', ends: '2100-01-01T00:00:00Z', member_seconds: 1 };
    assertProblem(await postPeriod(project, backwards), {
      status: 409,
      code: 'conflict',
      message: /end after its start/,
    });
  });

  test('with an invalid time is rejected with 400 and the name of the field', async () => {
    const project = await createProjectFor('302213');
    for (const [field, value] of [
      ['starts', 'soon'],
      ['ends', '2100-13-01T00:00:00Z'],
      ['ends', 7],
      ['starts', '2100-01-01'],
      ['starts', '2100-02-31T00:00:00Z'],
    ] as const) {
      const response = await postPeriod(project, { [field]: value, member_seconds: 1 });
      const { errors } = assertProblem(response, { status: 400, code: 'invalid_body' });
      assert.deepEqual([...new Set(errors?.map((error) => error.field))], [field]);
    }
  });
});

describe('a project without a current period', () => {
  const user = '302221';
  let project: string;
  let me: Caller;
  let jobId: string;
  let charged: number;

  before(async () => {
    me = await fixture.user(user);
    project = await createProjectFor(user);
    const job = await runJob(me, { command: 'true', runtime: 0.01 }, undefined, project);
    jobId = job.job_id;
    charged = (await listJobMovements(me, job, 'time', project)).at(-1)?.used ?? Number.NaN;
    await createStartedPeriod(project, { member_seconds: 500 }, 0.2);
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
    assert.equal(await getTimeLeft(user, project), 0);
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
    await assertLedgerBalances(admin);
  });

  test('accepts jobs again in the next period', async () => {
    await createStartedPeriod(project, { member_seconds: 40 });
    assert.equal(await getTimeLeft(user, project), 40);
    assertQuotaExceeded(await me.submit(`/jobs/${project}/`, { command: 'true' }), { available: 40 });
    await runJob(me, { command: 'true', runtime: 40 / 3600 }, undefined, project);
  });
});

test('a refund for a job of an old period returns the accounts of that period', async () => {
  const project = await createProjectFor('302231');
  const me = await fixture.user('302231');
  const job = await runJob(me, { command: 'true', runtime: 0.01 }, undefined, project);
  const charged = (await listJobMovements(me, job, 'time', project)).at(-1)?.used ?? Number.NaN;
  await createStartedPeriod(project, { member_seconds: 123 });
  const body = { job_id: job.job_id, amount: charged, reason: 'the node was broken' };
  const [pool, cap] = await postCreated(admin, `/admin/grants/${project}/refunds/`, body);
  assert.equal(await getTimeLeft('302231', project), 123, 'the refund is not added to the new period');
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
    const project = await createProjectFor('302241');
    const me = await fixture.user('302241');
    const openPeriod = () => createPeriod(project, { member_seconds: 3600 });
    const { status, text, body } = await submitSlowly('302241', project, 0.5, openPeriod);
    assert.equal(status, 201, text);
    assert.equal(await getTimeLeft('302241', project), 1800);
    await waitForStage(me, body, 'RUNNING');
    releaseJob(fixture.server, body);
    await me.waitUntilFinished(body);
    await assertStatementAddsUp(me, project);
  });

  test('does not give its time: the job needs the quota of the new period', async () => {
    const project = await createProjectFor('302242');
    const openPeriod = () => createPeriod(project, { member_seconds: 100 });
    const response = await submitSlowly('302242', project, 0.5, openPeriod);
    assertQuotaExceeded(response, { needed: 1800, available: 100 });
  });
});
