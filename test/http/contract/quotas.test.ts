import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Caller, Job, Quota } from '../../support/api.ts';
import { loadOpenApiContract, type OpenApiContract, type Problem } from '../../support/contract.ts';
import {
  bashZip,
  type Hpc,
  type JobHistory,
  jobPath,
  releaseJob,
  runExampleJob,
  unrunnableScript,
  waitForGoScript,
  waitForStage,
} from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

// The requirements of the interface on quotas: 2.3, 4.3 and 4.4, and how jobs change quotas.

let server: TestServer;
let contract: OpenApiContract;
let me: Caller;
let admin: Caller;
/** A user without jobs. */
let newcomer: Caller;

before(async () => {
  server = await startServer();
  contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
  admin = contract.callerFor(server.adminToken);
  newcomer = contract.callerFor(await server.token('301331'));
});
after(() => server.dispose());

const projects = ['proj_hpc_two_02', 'proj_hpc_two_01', 'proj_hpc_one_01'];
const systemOf = (project: string) => project.replace(/^proj_|_\d+$/g, '') as Hpc;

test('2.3 a Quota has exactly the fields of the table, in its order', async () => {
  const fields = ['id', 'project', 'project_hpc', 'project_name', 'space_left', 'time_left', 'user'];
  const { body: quotas } = await me.get<Quota[]>('/quotas/');
  assert.equal(quotas.length, projects.length);
  for (const quota of quotas) assert.deepEqual(Object.keys(quota), fields);
});

test('2.3 every field has its JSON format: space_left with a fraction, time_left and record numbers without', async () => {
  const { text } = await newcomer.get('/quotas/hpc_one/proj_hpc_one_01/');
  assert.match(
    text,
    /^\{"id":\d+,"project":\d+,"project_hpc":"HPC_ONE","project_name":"proj_hpc_one_01","space_left":10000000\.0,"time_left":18000000,"user":"301331"\}$/,
  );
});

test('2.3 id: each quota of each user has a unique record number', async () => {
  const all = await Promise.all(
    [me, newcomer, admin].map(async (caller) => (await caller.get<Quota[]>('/quotas/')).body),
  );
  const ids = all.flat().map(({ id }) => id);
  assert.equal(new Set(ids).size, 3 * projects.length);
  assert.ok(ids.every(Number.isSafeInteger));
});

test('2.3 project: the record number of a project is the same for all users and in its jobs', async () => {
  for (const project of projects) {
    const hpc = systemOf(project);
    const mine = await me.quota(hpc, project);
    assert.equal((await newcomer.quota(hpc, project)).project, mine.project);
    const payload = hpc === 'hpc_one' ? { command: 'true' } : { tool: 'BASH' };
    const { body: job } = await me.submit(`/jobs/${hpc}/${project}/`, payload, bashZip);
    assert.equal(job.project, mine.project);
    await me.waitUntilFinished(job);
  }
});

test('2.1 project_hpc is the uppercase form of the system that the project belongs to', async () => {
  for (const { project_hpc, project_name } of (await me.get<Quota[]>('/quotas/')).body) {
    assert.equal(project_hpc, systemOf(project_name).toUpperCase());
  }
});

test('2.1 further project names appear in quota responses: a second project on hpc_two', async () => {
  const { body: quotas } = await me.get<Quota[]>('/quotas/hpc_two/');
  assert.deepEqual(
    quotas.map(({ project_name }) => project_name),
    ['proj_hpc_two_02', 'proj_hpc_two_01'],
  );
});

/** The path suffixes, with the projects that each must return: an array, or a single object. */
const forms: [suffix: string, projects: string[] | string][] = [
  ['', projects],
  ['hpc_one/', ['proj_hpc_one_01']],
  ['hpc_two/', ['proj_hpc_two_02', 'proj_hpc_two_01']],
  ['hpc_one/proj_hpc_one_01/', 'proj_hpc_one_01'],
  ['hpc_two/proj_hpc_two_01/', 'proj_hpc_two_01'],
  ['hpc_two/proj_hpc_two_02/', 'proj_hpc_two_02'],
];
for (const [suffix, shown] of forms) {
  test(`4.3 /quotas/${suffix}: ${Array.isArray(shown) ? `an array of ${shown.length}` : 'a single object'}`, async () => {
    const { status, text, body } = await me.get<Quota | Quota[]>(`/quotas/${suffix}`);
    assert.equal(status, 200);
    assert.equal(Array.isArray(body), Array.isArray(shown));
    assert.deepEqual(
      [body].flat().map(({ project_name }) => project_name),
      [shown].flat(),
    );
    const singles = await Promise.all(
      [shown].flat().map(async (project) => (await me.get(`/quotas/${systemOf(project)}/${project}/`)).text),
    );
    assert.equal(text, Array.isArray(shown) ? `[${singles.join(',')}]` : singles[0]);
  });

  test(`4.4 /admin/quotas/{user_id}/${suffix}: identical to the response that the user gets`, async () => {
    for (const [caller, user] of [
      [me, '301330'],
      [newcomer, '301331'],
      [admin, '300001'],
    ] as const) {
      const seen = await caller.get(`/quotas/${suffix}`);
      const shownToAdmin = await admin.get(`/admin/quotas/${user}/${suffix}`);
      assert.equal(shownToAdmin.status, 200);
      assert.equal(shownToAdmin.text, seen.text);
    }
  });

  test(`4.4 /admin/quotas/{user_id}/${suffix}: 403 for callers who are not administrators, even for their own quotas`, async () => {
    for (const user of ['301330', '301331', '300001', '999999']) {
      const { status, body } = await me.get<Problem>(`/admin/quotas/${user}/${suffix}`);
      assert.deepEqual([status, body.code], [403, 'forbidden'], user);
    }
  });

  test(`4.4 /admin/quotas/{user_id}/${suffix}: 404 for a user who does not exist`, async () => {
    for (const user of ['999999', 'somebody', '0301330', '301330%20', '-1', '1e5', '%00']) {
      const { status, body } = await admin.get<Problem>(`/admin/quotas/${user}/${suffix}`);
      assert.equal(status, 404, user);
      // Text that is not all digits is read as the name of a system, which does not exist either.
      if (/^\d+$/.test(user)) assert.equal(body.code, 'user_unknown', user);
    }
  });
}

test('4.3 the unfiltered list is in descending order of project', async () => {
  const numbers = (await me.get<Quota[]>('/quotas/')).body.map(({ project }) => project);
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => b - a),
  );
});

test('4.3 the user of every returned Quota is the caller, numeric text', async () => {
  for (const [caller, user] of [
    [me, '301330'],
    [newcomer, '301331'],
    [admin, '300001'],
  ] as const) {
    for (const suffix of ['', 'hpc_one/', 'hpc_two/', 'hpc_two/proj_hpc_two_02/']) {
      const { body } = await caller.get<Quota | Quota[]>(`/quotas/${suffix}`);
      for (const quota of [body].flat()) assert.equal(quota.user, user);
    }
  }
});

for (const prefix of ['/quotas/', '/admin/quotas/301330/']) {
  test(`2.1 ${prefix}…: an unknown system is 404, and so is a project that is not on the system`, async () => {
    for (const [suffix, code] of [
      ['HPC_ONE/', 'system_unknown'],
      ['hpc_three/', 'system_unknown'],
      ['hpc_three/proj_hpc_one_01/', 'system_unknown'],
      ['hpc_one/proj_hpc_two_01/', 'project_unknown'],
      ['hpc_one/proj_hpc_one_02/', 'project_unknown'],
    ]) {
      const { status, body } = await admin.get<Problem>(prefix + suffix);
      assert.deepEqual([status, body.code], [404, code], suffix);
    }
  });
}

test('4.4 a read by an administrator does not change a quota', async () => {
  const first = (await newcomer.get('/quotas/')).text;
  await admin.get('/admin/quotas/301331/');
  assert.equal((await newcomer.get('/quotas/')).text, first);
});

// How jobs change quotas. Each test has its own user, so that nothing else changes the quota.

async function createUser(user: string): Promise<Caller> {
  return contract.callerFor(await server.token(user));
}

for (const [hpc, user, held] of [
  ['hpc_one', '301341', 2 * 6 * 7200],
  ['hpc_two', '301342', 2 * 6 * 1800],
] as const) {
  let history: JobHistory;

  test(`2.3 ${hpc}: time_left is lower by nodes × cores × runtime while the example request runs`, async () => {
    history = await runExampleJob(server, await createUser(user), hpc);
    assert.equal(history.before.time_left - history.during.time_left, held);
  });

  test(`2.3 ${hpc}: when it has ended, time_left is lower by the used time of all requested cores`, () => {
    const charged = history.before.time_left - history.after.time_left;
    assert.ok(charged > 0 && charged < held, String(charged));
    assert.equal(charged % 12, 0);
  });

  test(`2.3 ${hpc}: only the quota of its owner in its project changes`, async () => {
    const { body: quotas } = await admin.get<Quota[]>(`/admin/quotas/${user}/`);
    const moved = quotas.filter(({ time_left }) => time_left !== 18_000_000);
    assert.deepEqual(moved, [history.after]);
    assert.equal(
      (await newcomer.get<Quota[]>('/quotas/')).body.every((quota) => quota.time_left === 18_000_000),
      true,
    );
  });
}

test('2.3 while several jobs run or wait, time_left is lower by the sum of their holds', async () => {
  const caller = await createUser('301343');
  const jobs: Job[] = [];
  // The last job requests 360.036 seconds; holds are rounded up to whole seconds.
  for (const [node_number, core_number, runtime] of [
    [1, 1, 0.5],
    [2, 3, 1],
    [1, 1, 0.10001],
  ]) {
    jobs.push(
      (await caller.submit('/jobs/hpc_one/', { command: waitForGoScript, node_number, core_number, runtime })).body,
    );
    if (jobs.length === 1) await waitForStage(caller, jobs[0] as Job, 'RUNNING');
  }
  const { time_left } = await caller.quota('hpc_one', 'proj_hpc_one_01');
  assert.equal(time_left, 18_000_000 - (1800 + 2 * 3 * 3600 + 361));
  // The jobs run one after the other, in the order in which they reached the engine.
  for (let left = jobs; left.length > 0; ) {
    const stages = () => Promise.all(left.map(async (job) => (await caller.get<Job>(jobPath(job))).body.stage));
    const running = await until('one of them runs', async () => left[(await stages()).indexOf('RUNNING')]);
    releaseJob(server, running);
    assertStage(await caller.waitUntilFinished(running), 'SUCCESSFUL');
    left = left.filter((job) => job !== running);
  }
});

function assertStage(job: Job, stage: string): void {
  assert.equal(job.stage, stage, JSON.stringify(job));
}

test('2.3 a job that failed is charged for the used time', async () => {
  const caller = await createUser('301344');
  const { body } = await caller.submit('/jobs/hpc_one/', { command: 'exit 1', core_number: 2 });
  assertStage(await caller.waitUntilFinished(body), 'FAILED');
  const { time_left } = await caller.quota('hpc_one', 'proj_hpc_one_01');
  assert.ok(time_left < 18_000_000 && (18_000_000 - time_left) % 2 === 0, String(time_left));
});

test('2.3 a job that never ran is charged no time', async () => {
  const caller = await createUser('301345');
  const { command, zip } = unrunnableScript;
  const { body } = await caller.submit('/jobs/hpc_one/', { command }, zip);
  assertStage(await caller.waitUntilFinished(body), 'FAILED');
  const { text } = await caller.get('/quotas/hpc_one/proj_hpc_one_01/');
  assert.match(text, /"time_left":18000000,/);
});

test('2.3 space_left is lower by the size of the unpacked zip until the job ends, then by the size of its folder', async () => {
  const caller = await createUser('301346');
  const content = {
    'in.bin': 'x'.repeat(5000),
    'run.sh': `#!/bin/sh\n${waitForGoScript}\nhead -c 2500 in.bin > out.bin\necho done\n`,
  };
  const { body: job } = await caller.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, await createZip(content));
  await waitForStage(caller, job, 'RUNNING');
  const unpacked = Object.values(content).reduce((sum, text) => sum + text.length, 0);
  assert.equal((await caller.quota('hpc_one', 'proj_hpc_one_01')).space_left, (10_000_000_000 - unpacked) / 1000);
  releaseJob(server, job);
  assertStage(await caller.waitUntilFinished(job), 'SUCCESSFUL');

  const workspace = join(server.data, 'workspaces', job.job_id);
  const sizes = readdirSync(workspace, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => statSync(join(entry.parentPath, entry.name)).size);
  const used = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(used >= 7500);
  assert.equal((await caller.quota('hpc_one', 'proj_hpc_one_01')).space_left, (10_000_000_000 - used) / 1000);
});

test('a job that needs more than is available is 403 quota_exceeded with needed and available, and holds nothing', async () => {
  const caller = await createUser('301347');
  const before = (await caller.get('/quotas/')).text;
  const most = { command: 'true', node_number: '64', core_number: '128', runtime: '48.0' };
  const { status, body } = await caller.submit('/jobs/hpc_one/', most);
  const problem = body as unknown as Problem & { needed: number; available: number };
  assert.deepEqual(
    [status, problem.code, problem.needed, problem.available],
    [403, 'quota_exceeded', 64 * 128 * 48 * 3600, 18_000_000],
  );
  assert.equal((await caller.get('/quotas/')).text, before);
  assert.equal((await caller.get('/jobs/')).text, '[]');
});

test('time_left can be used to the last second, and not beyond', async () => {
  const caller = await createUser('301348');
  // 125 nodes × cores for 40 h are 18,000,000 core-seconds.
  const all = { command: waitForGoScript, node_number: 1, core_number: 125, runtime: 40 };
  const { status, body: job, text } = await caller.submit('/jobs/hpc_one/', all);
  assert.equal(status, 201, text);
  assert.equal((await caller.quota('hpc_one', 'proj_hpc_one_01')).time_left, 0);
  const rejected = await caller.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.0001 });
  const { code, needed, available } = rejected.body as unknown as Problem & { needed: number; available: number };
  assert.deepEqual([rejected.status, code, needed, available], [403, 'quota_exceeded', 1, 0]);
  await waitForStage(caller, job, 'RUNNING');
  releaseJob(server, job);
  await caller.waitUntilFinished(job);
});
