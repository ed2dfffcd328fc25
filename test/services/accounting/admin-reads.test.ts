import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  adminId,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import type { Caller, Job, Quota } from '../../support/api.ts';
import { jobPath, unrunnableScript } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  createProject,
  getLedgerVerification,
  getStatement,
  listJobMovements,
  postCreated,
  runJob,
  verifyLedgerOf,
} from '../../support/ledger.ts';
import { assertProblem } from '../../support/problems.ts';
import { createZip } from '../../support/zip.ts';

// Reads of administrators over all users: quotas, jobs, users, usage and the verification of the ledger.

interface Usage {
  user: string;
  project_hpc: string;
  project_name: string;
  month: string;
  jobs: number;
  time_seconds: number;
}

const granted = 50_000;
const reason = 'because of a test';
/** The users of this file, in addition to the two of a new server. */
const users = ['302401', '302402', '302403'];
let fixture: AccountingFixture;
let admin: Caller;
let jobs: Job[];

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 100 });
  admin = fixture.admin;
  const [first, second] = await Promise.all(users.map((user) => fixture.user(user)));
  assert.ok(first && second);
  const zip = await createZip({ 'main.sh': 'true\n' });
  jobs = [
    await runJob(first, { command: 'true', core_number: 7, runtime: 0.1 }),
    await runJob(second, { command: 'exit 2' }),
    await runJob(first, { command: unrunnableScript.command }, unrunnableScript.zip),
    await runJob(first, { tool: 'BASH', node_number: 3 }, zip, 'hpc_two/proj_hpc_two_01'),
    await runJob(second, { tool: 'BASH' }, zip, 'hpc_two/proj_hpc_two_02'),
    await runJob(first, { command: 'true' }),
  ];
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

/** The path of the quotas of all users in one project. */
function allQuotasOf(project: string): string {
  const [hpc, name] = project.split('/');
  return `/admin/quotas/?hpc=${hpc}&project_name=${name}`;
}

describe('quotas of all users', () => {
  for (const [query, suffix] of [
    ['', ''],
    ['?hpc=hpc_one', 'hpc_one/'],
    ['?hpc=hpc_two', 'hpc_two/'],
    ['?hpc=hpc_one&project_name=proj_hpc_one_01', 'hpc_one/proj_hpc_one_01/'],
    ['?hpc=hpc_two&project_name=proj_hpc_two_02', 'hpc_two/proj_hpc_two_02/'],
  ] as const) {
    test(`/admin/quotas/${query} returns the quotas of all users, by descending project, each as its user sees it`, async () => {
      const { status, body } = await admin.get<Quota[]>(`/admin/quotas/${query}`);
      assert.equal(status, 200);
      const expected: Quota[] = [];
      for (const user of [adminId, '301330', ...users]) {
        expected.push(...[(await admin.get<Quota[]>(`/admin/quotas/${user}/${suffix}`)).body].flat());
      }
      const byId = (a: Quota, b: Quota) => a.id - b.id;
      assert.deepEqual(body.toSorted(byId), expected.toSorted(byId));
      const order = body.map(({ project }) => project);
      assert.deepEqual(
        order,
        order.toSorted((a, b) => b - a),
      );
    });
  }

  test('are an array for a single project too, even without members', async () => {
    const project = await createProject(admin, 'empty', [], { timeSeconds: 1 });
    const { status, text } = await admin.get(allQuotasOf(project));
    assert.deepEqual([status, text], [200, '[]']);
  });

  test('never add up to more than the pool of the project', async () => {
    const body = { kind: 'top_up', resource: 'time', amount: 1, reason };
    const [pool] = await postCreated(admin, `/admin/grants/${defaultProjectPath}/`, body);
    const { body: quotas } = await admin.get<Quota[]>(allQuotasOf(defaultProjectPath));
    const sum = quotas.reduce((total, { time_left }) => total + time_left, 0);
    assert.ok(pool && sum <= pool.available, `${sum} ${pool?.available}`);
    assert.equal(sum, pool.available - 1, 'all except the second in reserve');
  });

  test('return 404 for an unknown system or project', async () => {
    for (const [query, code] of [
      ['hpc=hpc_three', 'system_unknown'],
      ['hpc=hpc_one&project_name=nowhere', 'project_unknown'],
    ] as const) {
      assertProblem(await admin.get(`/admin/quotas/?${query}`), { status: 404, code });
    }
    assertProblem(await admin.get('/admin/quotas/hpc_one/'), { status: 404, code: 'user_unknown' });
  });
});

describe('jobs of all users', () => {
  const idsOf = (predicate: (job: Job) => boolean) => jobs.filter(predicate).map(({ job_id }) => job_id);
  const lists: [query: string, expected: () => string[]][] = [
    ['', () => idsOf(() => true)],
    ['?hpc=hpc_one', () => idsOf(({ project_hpc }) => project_hpc === 'HPC_ONE')],
    ['?hpc=hpc_two', () => idsOf(({ project_hpc }) => project_hpc === 'HPC_TWO')],
    [
      '?hpc=hpc_two&project_name=proj_hpc_two_02',
      () => idsOf(({ project_name }) => project_name === 'proj_hpc_two_02'),
    ],
    ['?user_id=302401', () => idsOf(({ owner }) => owner === '302401')],
    [
      '?user_id=302402&hpc=hpc_one',
      () => idsOf(({ owner, project_hpc }) => owner === '302402' && project_hpc === 'HPC_ONE'),
    ],
    ['?user_id=302402&stage=COMPLETED', () => idsOf(({ owner, stage }) => owner === '302402' && stage === 'COMPLETED')],
    [
      '?user_id=302401&hpc=hpc_two&project_name=proj_hpc_two_01',
      () => idsOf(({ owner, project_name }) => owner === '302401' && project_name === 'proj_hpc_two_01'),
    ],
    ['?user_id=302403', () => []],
    ['?user_id=302402&hpc=hpc_two&project_name=proj_hpc_two_01', () => []],
  ];
  for (const [query, expected] of lists) {
    test(`/admin/jobs/${query} returns the matching jobs, by ascending id`, async () => {
      const { status, body } = await admin.get<Job[]>(`/admin/jobs/${query}`);
      assert.equal(status, 200);
      assert.deepEqual(
        body.map(({ job_id }) => job_id),
        expected(),
      );
    });
  }

  test('are byte for byte what their owners see', async () => {
    for (const job of jobs) {
      const own = await (await fixture.user(job.owner)).get(jobPath(job));
      const { status, text } = await admin.get(`/admin${jobPath(job)}`);
      assert.deepEqual([status, text], [200, own.text], job.job_id);
    }
  });

  test('return 404 for an unknown user, system, project or job', async () => {
    for (const [suffix, code] of [
      ['?user_id=999999', 'user_unknown'],
      ['?user_id=%00', 'user_unknown'],
      ['?user_id=999999&hpc=hpc_one', 'user_unknown'],
      ['?hpc=hpc_three', 'system_unknown'],
      ['?user_id=302401&hpc=hpc_one&project_name=nowhere', 'project_unknown'],
      [`${defaultProjectPath}/NO-SUCH-JOB/`, 'job_unknown'],
    ] as const) {
      assertProblem(await admin.get(`/admin/jobs/${suffix}`), { status: 404, code });
    }
  });

  test('return 400 for a project without its system, and for a filter that is given twice', async () => {
    for (const path of ['/admin/jobs/', '/admin/quotas/']) {
      for (const query of ['?project_name=proj_hpc_one_01', '?hpc=hpc_one&hpc=hpc_two']) {
        assert.equal((await admin.get(path + query)).status, 400, path + query);
      }
    }
    assert.equal((await admin.get('/admin/jobs/?user_id=1&user_id=2')).status, 400);
  });
});

test('the list of users shows their roles', async () => {
  await fixture.administrator('302409');
  const { body } = await admin.get<{ user: string; role: string; created_at: string }[]>('/admin/users/');
  assert.deepEqual(
    body.map(({ user, role }) => [user, role]),
    [
      [adminId, 'administrator'],
      ['301330', 'user'],
      ...users.map((user) => [user, 'user']),
      ['302409', 'administrator'],
    ],
  );
  for (const { created_at } of body) assert.ok(!Number.isNaN(Date.parse(created_at)));
});

describe('usage', () => {
  /** Returns charges minus refunds, from the statement of the user. */
  async function sumOfStatement(user: string, project: string): Promise<number> {
    const { movements } = (await getStatement(await fixture.user(user), project)).time;
    return movements.reduce((sum, { used }) => sum + used, 0);
  }
  const sumOfUsage = (rows: Usage[], user: string, project: string) =>
    rows
      .filter((row) => row.user === user && `${row.project_hpc.toLowerCase()}/${row.project_name}` === project)
      .reduce((sum, { time_seconds }) => sum + time_seconds, 0);

  test('is the sum of the charges by user, project and month', async () => {
    const { body } = await admin.get<Usage[]>('/admin/usage/');
    for (const user of users) {
      for (const project of [defaultProjectPath, 'hpc_two/proj_hpc_two_01', 'hpc_two/proj_hpc_two_02']) {
        assert.equal(sumOfUsage(body, user, project), await sumOfStatement(user, project), `${user} in ${project}`);
      }
    }
    for (const { month } of body) assert.match(month, /^\d{4}-(0[1-9]|1[0-2])$/);
    const [row] = body.filter(({ user, project_hpc }) => user === '302401' && project_hpc === 'HPC_ONE');
    assert.equal(row?.jobs, 3, 'jobs that ended, including the one that never ran');
  });

  test('is reduced by refunds', async () => {
    const [job] = jobs;
    assert.ok(job);
    const before = sumOfUsage((await admin.get<Usage[]>('/admin/usage/')).body, '302401', defaultProjectPath);
    await postCreated(admin, `/admin/grants/${defaultProjectPath}/refunds/`, { job_id: job.job_id, amount: 3, reason });
    const { body } = await admin.get<Usage[]>('/admin/usage/');
    assert.equal(sumOfUsage(body, '302401', defaultProjectPath), before - 3);
    assert.equal(sumOfUsage(body, '302401', defaultProjectPath), await sumOfStatement('302401', defaultProjectPath));
  });

  test('of one user has the rows of this user, and equals /usage/ of the user', async () => {
    const { body: all } = await admin.get<Usage[]>('/admin/usage/');
    for (const user of users) {
      const { text, body } = await admin.get<Usage[]>(`/admin/usage/${user}/`);
      assert.deepEqual(
        body,
        all.filter((row) => row.user === user),
      );
      assert.equal((await (await fixture.user(user)).get('/usage/')).text, text);
    }
    assert.equal((await admin.get('/admin/usage/302403/')).text, '[]');
    assertProblem(await admin.get('/admin/usage/999999/'), { status: 404, code: 'user_unknown' });
  });

  test('is available as CSV, with the same values', async () => {
    const { body } = await admin.get<Usage[]>('/admin/usage/');
    const plain = await fixture.uncheckedUser(adminId);
    const byAccept = await plain.send('GET', '/admin/usage/', { accept: 'text/csv' });
    const byFormat = await plain.get('/admin/usage/?format=csv');
    assert.equal(byAccept.headers.get('content-type'), 'text/csv; charset=utf-8');
    assert.equal(byAccept.text, byFormat.text);
    const header = 'user,project_hpc,project_name,month,jobs,time_seconds';
    const lines = body.map((row) => Object.values(row).join(','));
    assert.equal(byFormat.text, [header, ...lines, ''].join('\r\n'));
    const own = await (await fixture.uncheckedUser('302401')).get('/usage/?format=csv');
    const mine = body.filter(({ user }) => user === '302401').map((row) => Object.values(row).join(','));
    assert.equal(own.text, [header, ...mine, ''].join('\r\n'));
  });

  test('separates months, also for a refund of a job of an earlier month', async () => {
    const user = await fixture.user('302402');
    const [, job] = jobs;
    assert.ok(job);
    const charged = (await listJobMovements(user, job)).at(-1);
    const inHome = [job.owner, job.project] as const;
    // Only a direct database change can move a charge to another month.
    await fixture.tamper("update monthly_usage set month = '2001-01' where user_id = ? and project_id = ?", ...inHome);
    const { problems } = await verifyLedgerOf(fixture.server);
    assert.match(
      problems.join('\n'),
      /^user 302402: the usage of project \d+ in 2001-01 is not the sum of its entries$/m,
    );
    await postCreated(admin, `/admin/grants/${defaultProjectPath}/refunds/`, { job_id: job.job_id, amount: 1, reason });
    const { body } = await user.get<Usage[]>('/usage/');
    assert.deepEqual(
      body.filter(({ project_name }) => project_name === job.project_name).map((row) => [row.jobs, row.time_seconds]),
      [
        [1, charged?.used],
        [0, -1],
      ],
    );
    await fixture.tamper(
      "update monthly_usage set jobs = 1, time_seconds = ? where user_id = ? and project_id = ? and month <> '2001-01'",
      (charged?.used ?? 0) - 1,
      ...inHome,
    );
    await fixture.tamper("delete from monthly_usage where month = '2001-01'");
  });
});

test('the verification of the ledger returns its result and the number of checked accounts and entries', async () => {
  const verification = await getLedgerVerification(admin);
  assert.deepEqual([verification.balanced, verification.problems], [true, []]);
  const [rows] = await fixture.query<{ accounts: number; entries: number }>(
    'select (select count(*) from accounts) as accounts, (select count(*) from entries) as entries',
  );
  assert.deepEqual([verification.accounts, verification.entries], [rows?.accounts, rows?.entries]);
});
