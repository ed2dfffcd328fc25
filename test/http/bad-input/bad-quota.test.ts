import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { makeZip } from '../../files/zip/hostile-zips.ts';
import { type Caller, createCaller, type Job, type Quota } from '../../support/api.ts';
import { releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { assertCleanLog } from '../../support/logs.ts';
import {
  assertAllProblemsGaveAdvice,
  assertProblem,
  type StateSnapshot,
  takeStateSnapshot,
} from '../../support/problems.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { shippedConfig } from '../../support/shipped-config.ts';

/** Two members with these caps each make pools of twice as much; what is told is the smaller. */
const grant = { timeSeconds: 7200, spaceKb: 10 };

let server: TestServer;
let traces: StateSnapshot;
let me: Caller;
before(async () => {
  const config = shippedConfig();
  for (const { projects } of Object.values(config.systems))
    for (const project of projects) project.grant = { ...grant };
  config.systems.hpc_one?.projects.push({ name: 'proj_hpc_one_02', autoJoin: false, grant });
  config.systems.hpc_one?.projects.push({
    name: 'proj_hpc_one_03',
    autoJoin: true,
    grant: { timeSeconds: 0, spaceKb: 0 },
  });
  config.systems.hpc_one?.projects.push({ name: 'proj_hpc_one_04', autoJoin: true, grant });
  server = await startServer({ config });
  me = createCaller(server.url, server.userToken);
  traces = await takeStateSnapshot(server, [server.userToken, server.adminToken]);
});
after(() => server.dispose());
afterEach(() => traces.assertUnchanged());

const path = '/jobs/hpc_one/';
const ofSize = (kb: number) =>
  makeZip({ data: Buffer.from(Array.from({ length: kb * 1000 }, (_, i) => (i * i) >> 3)) });

interface Shortage {
  resource: string;
  account: string;
  unit: string;
  needed: number;
  available: number;
}

async function assertTooSmall(answer: Awaited<ReturnType<Caller['submit']>>, expected: Shortage) {
  const { resource, account, unit, needed, available, detail } = assertProblem(answer, {
    status: 403,
    code: 'quota_exceeded',
    message: /Ask for less|would fit/,
  });
  assert.deepEqual({ resource, account, unit, needed, available }, expected);
  for (const part of [expected.needed, expected.available, expected.unit])
    assert.ok(detail.includes(String(part)), detail);
}

describe('too little time', () => {
  test('for the largest job there can be', async () => {
    const payload = { command: 'true', node_number: '64', core_number: '128', runtime: '48' };
    await assertTooSmall(await me.submit(path, payload), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 64 * 128 * 48 * 3600,
      available: 7200,
    });
  });

  test('in the own quota, where the project has enough', async () => {
    await assertTooSmall(await me.submit(path, { command: 'true', core_number: 3, runtime: '1' }), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 10_800,
      available: 7200,
    });
  });

  test('by one second', async () => {
    await assertTooSmall(await me.submit(path, { command: 'true', runtime: 2 + 1 / 3600 }), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 7201,
      available: 7200,
    });
  });

  test('on the tool system, even after the runtime was cut down', async () => {
    const payload = { tool: 'BASH', core_number: '8', runtime: '1000' };
    await assertTooSmall(await me.submit('/jobs/hpc_two/', payload), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 14_400,
      available: 7200,
    });
  });

  test('where nothing was granted at all', async () => {
    await assertTooSmall(await me.submit(`${path}proj_hpc_one_03/`, { command: 'true' }), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 3600,
      available: 0,
    });
  });

  test('comes with a runtime that would fit, and that does', async () => {
    for (const core_number of [3, 7, 11]) {
      const payload = { command: 'true', core_number };
      const spare = `${path}proj_hpc_one_04/`;
      const problem = assertProblem(await me.submit(spare, { ...payload, runtime: 48 }), {
        status: 403,
        code: 'quota_exceeded',
        message: /would fit/,
      });
      const again = await me.submit(spare, { ...payload, runtime: problem.longest_runtime });
      assert.equal(again.status, 201, again.text);
      assert.equal((await me.waitUntilFinished(again.body)).failed, false);
    }
    await traces.update();
  });

  test('is told before a body is read', async () => {
    const payload = { command: 'true', core_number: 128 };
    const answer = await me.submit(path, payload, Buffer.from('this is no zip'));
    assertProblem(answer, { status: 403, code: 'quota_exceeded' });
  });
});

describe('too little space', () => {
  const space = { resource: 'space', unit: 'KB' };

  test('in the own quota, where the project has enough', async () => {
    const answer = await me.submit(path, { command: 'true' }, await ofSize(15));
    await assertTooSmall(answer, { ...space, account: 'cap', needed: 15, available: 10 });
  });

  test('in the own quota and in the project', async () => {
    const answer = await me.submit(path, { command: 'true' }, await ofSize(25));
    await assertTooSmall(answer, { ...space, account: 'cap', needed: 25, available: 10 });
  });

  test('by one byte', async () => {
    const zip = await makeZip({ a: Buffer.alloc(9000, 1), b: Buffer.alloc(1001, 2) });
    const answer = await me.submit(path, { command: 'true' }, zip);
    await assertTooSmall(answer, { ...space, account: 'cap', needed: 10.001, available: 10 });
  });

  test('for what the zip unpacks to, though the zip itself would fit', async () => {
    const zip = await makeZip({ zeros: Buffer.alloc(11_000) });
    assert.ok(zip.length < 1000);
    const answer = await me.submit(path, { command: 'true' }, zip);
    await assertTooSmall(answer, { ...space, account: 'cap', needed: 11, available: 10 });
  });

  test('in a multipart form', async () => {
    const form = new FormData();
    form.append('file', new Blob([new Uint8Array(await ofSize(15))]), 'job.zip');
    const answer = await me.send(
      'POST',
      path,
      { 'content-disposition': 'attachment; filename=job.zip', payload: '{"command": "true"}' },
      form,
    );
    assertProblem(answer, { status: 403, code: 'quota_exceeded' });
  });

  test('many times at once', async () => {
    const zip = await ofSize(15);
    const answers = await Promise.all(Array.from({ length: 20 }, () => me.submit(path, { command: 'true' }, zip)));
    for (const answer of answers) assertProblem(answer, { status: 403, code: 'quota_exceeded' });
  });
});

describe('a project of others', () => {
  test('takes no jobs of the caller', async () => {
    const zip = await ofSize(1);
    for (const body of [undefined, zip]) {
      const answer = await me.submit(`${path}proj_hpc_one_02/`, { command: 'true' }, body);
      assertProblem(answer, { status: 403, code: 'not_a_member', message: /proj_hpc_one_02/ });
    }
  });

  test('takes no jobs of an administrator either', async () => {
    const answer = await createCaller(server.url, server.adminToken).submit(`${path}proj_hpc_one_02/`, {
      command: 'true',
    });
    assertProblem(answer, { status: 403, code: 'not_a_member' });
  });

  test('has no quota of the caller', async () => {
    const answer = await me.get('/quotas/hpc_one/proj_hpc_one_02/');
    assertProblem(answer, { status: 404, code: 'quota_unknown', message: /proj_hpc_one_02/ });
  });
});

describe('what is refused', () => {
  test('holds nothing: all of the quota can still be had', async () => {
    const all = { command: 'true', runtime: 2 };
    assertProblem(await me.submit(path, { ...all, runtime: 2.001 }), { status: 403, code: 'quota_exceeded' });
    assertProblem(await me.submit(path, all, await ofSize(11)), { status: 403, code: 'quota_exceeded' });
    const { status, body, text } = await me.submit(path, all, await ofSize(10));
    assert.equal(status, 201, text);
    assert.equal((await me.waitUntilFinished(body as Job)).failed, false);
    await traces.update();
  });

  test('counts what other jobs hold, and lets it go with them', async () => {
    const before = await me.quota('hpc_two', 'proj_hpc_two_01');
    const zip = await makeZip({ 'main.sh': `${waitForGoScript}\n` });
    const held = await me.submit('/jobs/hpc_two/', { tool: 'BASH', core_number: 3, runtime: 0.5 }, zip);
    assert.equal(held.status, 201, held.text);
    const during: Quota = await me.quota('hpc_two', 'proj_hpc_two_01');
    assert.equal(during.time_left, before.time_left - 5400);
    const answer = await me.submit('/jobs/hpc_two/', { tool: 'BASH', core_number: 2 }, zip);
    await assertTooSmall(answer, { resource: 'time', account: 'cap', unit: 'seconds', needed: 3600, available: 1800 });
    assert.deepEqual(await me.quota('hpc_two', 'proj_hpc_two_01'), during);
    await waitForStage(me, held.body, 'RUNNING');
    releaseJob(server, held.body);
    const job = await me.waitUntilFinished(held.body);
    assert.equal(job.stage, 'COMPLETED');
    const left = (await me.quota('hpc_two', 'proj_hpc_two_01')).time_left;
    assert.ok(left > during.time_left && left <= before.time_left, `${left} seconds`);
    await traces.update();
  });
});

test('every one of these refusals says what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, names every request, and has no token', async () => {
  await assertCleanLog(server, [server.userToken, server.adminToken]);
});
