import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ApiResponse, Caller, Job, Quota } from '../../support/api.ts';
import { loadOpenApiContract, type OpenApiContract, type Problem } from '../../support/contract.ts';
import {
  bashZip,
  exampleRequest,
  type Hpc,
  type JobHistory,
  jobPath,
  releaseJob,
  runExampleJob,
  waitForGoScript,
  waitForStage,
} from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { createZip } from '../../support/zip.ts';

// The requirements of the interface on jobs: 1, 2.1, 2.2, 3, 4.1 and 7. The example request runs once on both systems
// before all tests; the tests check the recorded responses.

let server: TestServer;
let contract: OpenApiContract;
let me: Caller;
let otherUser: Caller;
let emptyList: ApiResponse<Job[]>;
let submittedBetween: [earliest: number, latest: number];
const histories = {} as Record<Hpc, JobHistory>;

const systems = ['hpc_one', 'hpc_two'] as const;
const settled = {
  hpc_one: { queued: 'QUEUED', succeeded: 'SUCCESSFUL', runtime: '2.0', project: 'proj_hpc_one_01' },
  hpc_two: { queued: 'QUEUE', succeeded: 'COMPLETED', runtime: '0.5', project: 'proj_hpc_two_01' },
};
const timestamp = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/;

before(async () => {
  server = await startServer();
  contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
  otherUser = contract.callerFor(await server.token('301331'));
  emptyList = await me.get<Job[]>('/jobs/');
  const earliest = Date.now();
  await Promise.all(
    systems.map(async (hpc) => {
      histories[hpc] = await runExampleJob(server, me, hpc);
    }),
  );
  submittedBetween = [earliest, Date.now()];
});
after(() => server.dispose());

/** Returns the recorded responses of the example job: submitted, running and finished. */
function recordedResponses(hpc: Hpc): ApiResponse<Job>[] {
  const { submitted, running, finished } = histories[hpc];
  return [submitted, running, finished];
}

test('4.1 a caller without jobs gets an empty array', () => {
  assert.equal(emptyList.status, 200);
  assert.equal(emptyList.text, '[]');
});

for (const hpc of systems) {
  const { queued, succeeded, runtime, project } = settled[hpc];

  test(`4.2 ${hpc}: the example request, in which every value is a string, gets 201 Created`, () => {
    assert.equal(histories[hpc].submitted.status, 201);
  });

  test(`2.2 ${hpc}: a Job has exactly the fields of the table, in its order`, () => {
    const fields =
      'id job_id owner project project_hpc project_name title runtime stage terminal_stage failed init_date end_date';
    for (const { body } of recordedResponses(hpc)) assert.deepEqual(Object.keys(body), fields.split(' '));
  });

  test(`2.2 ${hpc}: every field has its JSON format: integers without and floats with a fraction`, () => {
    const time = '"\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}Z"';
    const form = new RegExp(
      `^\\{"id":\\d+,"job_id":"[^"]+","owner":"\\d+","project":\\d+,"project_hpc":"[^"]+","project_name":"[^"]+",` +
        `"title":"[^"]*","runtime":\\d+\\.\\d+,"stage":"[A-Z]+","terminal_stage":(true|false),` +
        `"failed":(true|false),"init_date":${time},"end_date":(null|${time})\\}$`,
    );
    for (const { text } of recordedResponses(hpc)) assert.match(text, form);
  });

  test(`2.2 ${hpc}: id and job_id name the same job from its submission to its end`, () => {
    const { id, job_id } = histories[hpc].submitted.body;
    for (const { body } of recordedResponses(hpc)) assert.deepEqual([body.id, body.job_id], [id, job_id]);
  });

  test(`2.2 ${hpc}: owner is the user identifier of the submitter, numeric text`, () => {
    for (const { body } of recordedResponses(hpc)) assert.equal(body.owner, '301330');
  });

  test(`2.2 ${hpc}: project is the record number of the project in its quota`, async () => {
    const quota = await me.quota(hpc, project);
    for (const { body } of recordedResponses(hpc)) assert.equal(body.project, quota.project);
  });

  test(`2.1 ${hpc}: in response bodies project_hpc is the uppercase form`, () => {
    for (const { body } of recordedResponses(hpc)) assert.equal(body.project_hpc, hpc.toUpperCase());
  });

  test(`2.1 ${hpc}: without a project the first one of the system is reported as the job's project`, () => {
    for (const { body } of recordedResponses(hpc)) assert.equal(body.project_name, project);
  });

  test(`2.2 ${hpc}: title is the title given at submission`, () => {
    for (const { body } of recordedResponses(hpc)) assert.equal(body.title, exampleRequest.title);
  });

  test(`2.2 ${hpc}: a request with runtime 2.0 yields ${runtime} in all responses`, () => {
    for (const { text } of recordedResponses(hpc)) assert.ok(text.includes(`"runtime":${runtime},`), text);
  });

  test(`3 ${hpc}: the response to a submission has stage ${queued}, which is not terminal`, () => {
    const { stage, terminal_stage } = histories[hpc].submitted.body;
    assert.deepEqual({ stage, terminal_stage }, { stage: queued, terminal_stage: false });
  });

  test(`3 ${hpc}: a newly submitted job has end_date null, failed false and a non-terminal stage`, () => {
    const { end_date, failed, terminal_stage } = histories[hpc].submitted.body;
    assert.deepEqual({ end_date, failed, terminal_stage }, { end_date: null, failed: false, terminal_stage: false });
  });

  test(`2.2 ${hpc}: a running job has stage RUNNING, and end_date null because it has not ended`, () => {
    const { stage, terminal_stage, failed, end_date } = histories[hpc].running.body;
    assert.deepEqual(
      { stage, terminal_stage, failed, end_date },
      { stage: 'RUNNING', terminal_stage: false, failed: false, end_date: null },
    );
  });

  test(`3 ${hpc}: a finished job has stage ${succeeded}, terminal_stage true and failed false`, () => {
    const { stage, terminal_stage, failed } = histories[hpc].finished.body;
    assert.deepEqual({ stage, terminal_stage, failed }, { stage: succeeded, terminal_stage: true, failed: false });
  });

  test(`2.2 ${hpc}: init_date is an ISO 8601 UTC timestamp of the submission, and never changes`, () => {
    const { init_date } = histories[hpc].submitted.body;
    assert.match(init_date, timestamp);
    const [earliest, latest] = submittedBetween;
    assert.ok(Date.parse(init_date) > earliest - 1000 && Date.parse(init_date) <= latest, init_date);
    for (const { body } of recordedResponses(hpc)) assert.equal(body.init_date, init_date);
  });

  test(`2.2 ${hpc}: end_date of a finished job has the same format, and is not before init_date`, () => {
    const { init_date, end_date } = histories[hpc].finished.body;
    assert.match(end_date ?? '', timestamp);
    assert.ok((end_date ?? '') >= init_date);
  });
}

test('2.2 job_id: on hpc_one it is an upper-case UUID-style string', () => {
  assert.match(histories.hpc_one.submitted.body.job_id, /^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$/);
});

test('2.2 job_id: on hpc_two it is a fixed prefix, the tool name and a hexadecimal token', () => {
  assert.match(histories.hpc_two.submitted.body.job_id, /^BURSAR-JOB-BASH-[0-9A-F]{32}$/);
});

test('2.2 job_id: it contains the tool name of the job, and a new token each time', async () => {
  const zip = await createZip({ 'main.py': '', 'main.mjs': '' });
  const jobs = await Promise.all(
    ['PYTHON3', 'NODE', 'NODE'].map(async (tool) => (await me.submit('/jobs/hpc_two/', { tool }, zip)).body),
  );
  const forms = [/^BURSAR-JOB-PYTHON3-[0-9A-F]{32}$/, /^BURSAR-JOB-NODE-[0-9A-F]{32}$/, /^BURSAR-JOB-NODE-/];
  for (const [index, form] of forms.entries()) assert.match(jobs[index]?.job_id ?? '', form);
  assert.equal(new Set(jobs.map(({ job_id }) => job_id)).size, 3);
  await Promise.all(jobs.map((job) => me.waitUntilFinished(job)));
});

test('2.2 id: record numbers are unique across both systems', () => {
  assert.notEqual(histories.hpc_one.submitted.body.id, histories.hpc_two.submitted.body.id);
});

test('3 a job that waits for resources stays QUEUED, also in lists', async () => {
  const ahead = (
    await me.submit('/jobs/hpc_one/', { command: waitForGoScript, node_number: 64, core_number: 128, runtime: 0.1 })
  ).body;
  await waitForStage(me, ahead, 'RUNNING');
  const waiting = (await me.submit('/jobs/hpc_one/', { command: 'true' })).body;
  const { body: listed } = await me.get<Job[]>('/jobs/hpc_one/');
  assert.equal((await me.get<Job>(jobPath(ahead))).body.stage, 'RUNNING');
  assert.deepEqual(
    listed.find(({ id }) => id === waiting.id),
    waiting,
  );
  releaseJob(server, ahead);
  assert.equal((await me.waitUntilFinished(waiting)).stage, 'SUCCESSFUL');
});

// 4.1: all jobs have ended, so that lists can be compared byte by byte.

/** Runs a job that ends at once. */
async function submitTo(caller: Caller, path: string): Promise<Job> {
  const payload = path.includes('hpc_one') ? { command: 'true' } : { tool: 'BASH' };
  const { status, body, text } = await caller.submit(path, payload, bashZip);
  assert.equal(status, 201, text);
  return await caller.waitUntilFinished(body);
}

/** Returns the JSON array of exactly these jobs, as text. */
async function toJsonList(caller: Caller, jobs: Job[]): Promise<string> {
  const texts = await Promise.all(jobs.map(async (job) => (await caller.get<Job>(jobPath(job))).text));
  return `[${texts.join(',')}]`;
}

test('4.1 the four forms: all jobs, those of one system, those of one project, and a single one', async () => {
  const caller = contract.callerFor(await server.token('301332'));
  const one = await submitTo(caller, '/jobs/hpc_one/proj_hpc_one_01/');
  const second = await submitTo(caller, '/jobs/hpc_two/proj_hpc_two_02/');
  const first = await submitTo(caller, '/jobs/hpc_two/');
  const last = await submitTo(caller, '/jobs/hpc_one/');

  const expected: [path: string, jobs: Job[]][] = [
    ['/jobs/', [one, second, first, last]],
    ['/jobs/hpc_one/', [one, last]],
    ['/jobs/hpc_two/', [second, first]],
    ['/jobs/hpc_one/proj_hpc_one_01/', [one, last]],
    ['/jobs/hpc_two/proj_hpc_two_01/', [first]],
    ['/jobs/hpc_two/proj_hpc_two_02/', [second]],
  ];
  for (const [path, jobs] of expected) {
    const { status, text } = await caller.get<Job[]>(path);
    assert.equal(status, 200);
    assert.equal(text, await toJsonList(caller, jobs), path);
  }
  const single = await caller.get<Job>(jobPath(second));
  assert.equal(single.status, 200);
  assert.deepEqual(single.body, second);
});

test('4.1 lists are in ascending order of id', async () => {
  const ids = (await me.get<Job[]>('/jobs/')).body.map(({ id }) => id);
  assert.ok(ids.length > 2);
  assert.deepEqual(
    ids,
    ids.toSorted((a, b) => a - b),
  );
});

test('4.1 a submitted job is in all of its lists immediately', async () => {
  const payload = { tool: 'BASH', title: 'at once' };
  const { body: job } = await me.submit('/jobs/hpc_two/proj_hpc_two_02/', payload, bashZip);
  for (const path of ['/jobs/', '/jobs/hpc_two/', '/jobs/hpc_two/proj_hpc_two_02/']) {
    const { body: jobs } = await me.get<Job[]>(path);
    assert.equal(jobs.at(-1)?.id, job.id, path);
  }
  await me.waitUntilFinished(job);
});

test('4.1 /jobs/ lists only the jobs of the caller', async () => {
  const theirs = await submitTo(otherUser, '/jobs/hpc_one/');
  for (const path of ['/jobs/', '/jobs/hpc_one/', '/jobs/hpc_one/proj_hpc_one_01/']) {
    const { body: mine } = await me.get<Job[]>(path);
    assert.ok(mine.every(({ owner }) => owner === '301330'));
    assert.deepEqual(
      (await otherUser.get<Job[]>(path)).body.map(({ id }) => id),
      [theirs.id],
    );
  }
  assert.equal((await otherUser.get('/jobs/hpc_two/')).text, '[]');
  assert.equal((await otherUser.get('/jobs/hpc_two/proj_hpc_two_01/')).text, '[]');
});

test('4.1 /jobs/ lists only their own jobs for an administrator too', async () => {
  const admin = contract.callerFor(server.adminToken);
  assert.equal((await admin.get('/jobs/')).text, '[]');
  assert.equal((await admin.get(jobPath(histories.hpc_one.submitted.body))).status, 404);
});

test("7 another user's job is 404, with the same response as a job that does not exist", async () => {
  const mine = jobPath(histories.hpc_one.submitted.body);
  const missing = mine.replace(/[^/]+\/$/, '00000000-0000-4000-8000-000000000000/');
  const responses = await Promise.all([mine, missing].map((path) => otherUser.get<Problem>(path)));
  const [real, absent] = responses.map(({ status, body }) => ({ ...body, status, request_id: '' }));
  assert.equal(real?.status, 404);
  assert.deepEqual(real, absent);
});

const invalidIds: [what: string, id: (job: Job) => string][] = [
  ['a word', () => 'nonsense'],
  ['a number', (job) => String(job.id)],
  ['an unknown UUID', () => 'AAAAAAAA-AAAA-4AAA-8AAA-AAAAAAAAAAAA'],
  ['its lower-case form', (job) => job.job_id.toLowerCase()],
  ['its beginning', (job) => job.job_id.slice(0, -1)],
  ['with something after it', (job) => `${job.job_id}0`],
  ['a pattern', () => '%25'],
  ['a path', () => '..%2F..%2Fetc%2Fpasswd'],
  ['a NUL', () => '%00'],
  ['not ASCII', () => encodeURIComponent('ĳob ✓')],
  ['SQL', () => encodeURIComponent("' or 1=1 --")],
  ['not decodable', () => '%zz'],
  ['very long', () => 'A'.repeat(2000)],
];
for (const [what, idFrom] of invalidIds) {
  test(`4.1 and 7 when the identifier is not valid (${what}), the response is 404 as a problem document`, async () => {
    const path = `/jobs/hpc_one/proj_hpc_one_01/${idFrom(histories.hpc_one.submitted.body)}/`;
    const { status, headers, body } = await me.get<Problem>(path);
    assert.equal(status, 404);
    assert.equal(headers.get('content-type'), 'application/problem+json');
    assert.equal(body.status, 404);
  });
}

test('7 a job is found only under its own system and project', async () => {
  const { job_id: jobId } = histories.hpc_two.submitted.body;
  for (const project of ['hpc_two/proj_hpc_two_02', 'hpc_one/proj_hpc_one_01', 'hpc_one/proj_hpc_two_01']) {
    assert.equal((await me.get(`/jobs/${project}/${jobId}/`)).status, 404, project);
  }
});

test('2.1 in paths the hpc value is lowercase: the uppercase form, and any unknown system, is 404', async () => {
  for (const hpc of ['HPC_ONE', 'Hpc_one', 'hpc_three', 'hpc_one%20', '__proto__', 'constructor']) {
    const { status, body } = await me.get<Problem>(`/jobs/${hpc}/`);
    assert.deepEqual([status, body.code], [404, 'system_unknown'], hpc);
  }
});

test('2.1 a project of the other system, and an unknown project, is 404', async () => {
  for (const project of ['hpc_one/proj_hpc_two_01', 'hpc_two/proj_hpc_one_01', 'hpc_one/proj_hpc_one_99']) {
    const { status, body } = await me.get<Problem>(`/jobs/${project}/`);
    assert.deepEqual([status, body.code], [404, 'project_unknown'], project);
  }
});

test('1 all responses are JSON, including errors', async () => {
  for (const path of ['/jobs/', '/quotas/', '/jobs/hpc_three/', '/jobs/hpc_one/proj_hpc_one_01/x/', '/nowhere/']) {
    const { text, headers } = await me.get<Quota[]>(path);
    assert.doesNotThrow(() => JSON.parse(text), path);
    assert.match(headers.get('content-type') ?? '', /^application\/(problem\+)?json$/);
  }
});
