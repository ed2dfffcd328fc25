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

/** The caps of two members. The pool is the sum of both, so a problem reports the cap, which is smaller. */
const grant = { timeSeconds: 7200, spaceKb: 10 };

let server: TestServer;
let state: StateSnapshot;
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
  state = await takeStateSnapshot(server, [server.userToken, server.adminToken]);
});
after(() => server.dispose());
afterEach(() => state.assertUnchanged());

const path = '/jobs/hpc_one/';
const createZipOfKb = (kb: number) =>
  makeZip({ data: Buffer.from(Array.from({ length: kb * 1000 }, (_, i) => (i * i) >> 3)) });

interface ExpectedShortfall {
  resource: string;
  account: string;
  unit: string;
  needed: number;
  available: number;
}

async function assertQuotaExceeded(response: Awaited<ReturnType<Caller['submit']>>, expected: ExpectedShortfall) {
  const { resource, account, unit, needed, available, detail } = assertProblem(response, {
    status: 403,
    code: 'quota_exceeded',
    message: /Ask for less|would fit/,
  });
  assert.deepEqual({ resource, account, unit, needed, available }, expected);
  const amount = resource === 'time' ? String.raw`[\d.,]+ core-(h|min|s)` : String.raw`[\d.,]+ k?B`;
  assert.match(
    detail,
    new RegExp(`needs ${amount} of ${resource}.* has only ${amount} available: ${amount} too little`),
  );
}

describe('rejects a job for lack of time', () => {
  test('if it has the largest possible size', async () => {
    const payload = { command: 'true', node_number: '64', core_number: '128', runtime: '48' };
    await assertQuotaExceeded(await me.submit(path, payload), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 64 * 128 * 48 * 3600,
      available: 7200,
    });
  });

  test("if the user's quota is too small and the project's is not", async () => {
    await assertQuotaExceeded(await me.submit(path, { command: 'true', core_number: 3, runtime: '1' }), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 10_800,
      available: 7200,
    });
  });

  test('if one second is missing', async () => {
    await assertQuotaExceeded(await me.submit(path, { command: 'true', runtime: 2 + 1 / 3600 }), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 7201,
      available: 7200,
    });
  });

  test('on the tool system, after the runtime was reduced to its maximum', async () => {
    const payload = { tool: 'BASH', core_number: '8', runtime: '1000' };
    await assertQuotaExceeded(await me.submit('/jobs/hpc_two/', payload), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 14_400,
      available: 7200,
    });
  });

  test('if nothing was granted', async () => {
    await assertQuotaExceeded(await me.submit(`${path}proj_hpc_one_03/`, { command: 'true' }), {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 3600,
      available: 0,
    });
  });

  test('and reports the longest runtime that fits, which is then accepted', async () => {
    for (const core_number of [3, 7, 11]) {
      const payload = { command: 'true', core_number };
      const spare = `${path}proj_hpc_one_04/`;
      const problem = assertProblem(await me.submit(spare, { ...payload, runtime: 48 }), {
        status: 403,
        code: 'quota_exceeded',
        message: /would fit/,
      });
      const retry = await me.submit(spare, { ...payload, runtime: problem.longest_runtime });
      assert.equal(retry.status, 201, retry.text);
      assert.equal((await me.waitUntilFinished(retry.body)).failed, false);
    }
    await state.update();
  });

  test('before the body is read', async () => {
    const payload = { command: 'true', core_number: 128 };
    const response = await me.submit(path, payload, Buffer.from('this is no zip'));
    assertProblem(response, { status: 403, code: 'quota_exceeded' });
  });
});

describe('rejects a job for lack of space', () => {
  const space = { resource: 'space', unit: 'KB' };

  test("if the user's quota is too small and the project's is not", async () => {
    const response = await me.submit(path, { command: 'true' }, await createZipOfKb(15));
    await assertQuotaExceeded(response, { ...space, account: 'cap', needed: 15, available: 10 });
  });

  test('if both quotas are too small', async () => {
    const response = await me.submit(path, { command: 'true' }, await createZipOfKb(25));
    await assertQuotaExceeded(response, { ...space, account: 'cap', needed: 25, available: 10 });
  });

  test('if one byte is missing', async () => {
    const zip = await makeZip({ a: Buffer.alloc(9000, 1), b: Buffer.alloc(1001, 2) });
    const response = await me.submit(path, { command: 'true' }, zip);
    await assertQuotaExceeded(response, { ...space, account: 'cap', needed: 10.001, available: 10 });
  });

  test('if the unpacked files are too large, although the zip is not', async () => {
    const zip = await makeZip({ zeros: Buffer.alloc(11_000) });
    assert.ok(zip.length < 1000);
    const response = await me.submit(path, { command: 'true' }, zip);
    await assertQuotaExceeded(response, { ...space, account: 'cap', needed: 11, available: 10 });
  });

  test('if it is sent as a multipart form', async () => {
    const form = new FormData();
    form.append('file', new Blob([new Uint8Array(await createZipOfKb(15))]), 'job.zip');
    const response = await me.send(
      'POST',
      path,
      { 'content-disposition': 'attachment; filename=job.zip', payload: '{"command": "true"}' },
      form,
    );
    assertProblem(response, { status: 403, code: 'quota_exceeded' });
  });

  test('many times concurrently', async () => {
    const zip = await createZipOfKb(15);
    const responses = await Promise.all(Array.from({ length: 20 }, () => me.submit(path, { command: 'true' }, zip)));
    for (const response of responses) assertProblem(response, { status: 403, code: 'quota_exceeded' });
  });
});

describe('a project of which the caller is not a member', () => {
  test('accepts no jobs of the caller', async () => {
    const zip = await createZipOfKb(1);
    for (const body of [undefined, zip]) {
      const response = await me.submit(`${path}proj_hpc_one_02/`, { command: 'true' }, body);
      assertProblem(response, { status: 403, code: 'not_a_member', message: /proj_hpc_one_02/ });
    }
  });

  test('accepts no jobs of an administrator', async () => {
    const response = await createCaller(server.url, server.adminToken).submit(`${path}proj_hpc_one_02/`, {
      command: 'true',
    });
    assertProblem(response, { status: 403, code: 'not_a_member' });
  });

  test('has no quota for the caller', async () => {
    const response = await me.get('/quotas/hpc_one/proj_hpc_one_02/');
    assertProblem(response, { status: 404, code: 'quota_unknown', message: /proj_hpc_one_02/ });
  });
});

describe('holds', () => {
  test('are not left by a rejected job: the whole quota can still be used', async () => {
    const all = { command: 'true', runtime: 2 };
    assertProblem(await me.submit(path, { ...all, runtime: 2.001 }), { status: 403, code: 'quota_exceeded' });
    assertProblem(await me.submit(path, all, await createZipOfKb(11)), { status: 403, code: 'quota_exceeded' });
    const { status, body, text } = await me.submit(path, all, await createZipOfKb(10));
    assert.equal(status, 201, text);
    assert.equal((await me.waitUntilFinished(body as Job)).failed, false);
    await state.update();
  });

  test('of other jobs reduce the quota until these jobs end', async () => {
    const before = await me.quota('hpc_two', 'proj_hpc_two_01');
    const zip = await makeZip({ 'main.sh': `${waitForGoScript}\n` });
    const held = await me.submit('/jobs/hpc_two/', { tool: 'BASH', core_number: 3, runtime: 0.5 }, zip);
    assert.equal(held.status, 201, held.text);
    const during: Quota = await me.quota('hpc_two', 'proj_hpc_two_01');
    assert.equal(during.time_left, before.time_left - 5400);
    const response = await me.submit('/jobs/hpc_two/', { tool: 'BASH', core_number: 2 }, zip);
    await assertQuotaExceeded(response, {
      resource: 'time',
      account: 'cap',
      unit: 'seconds',
      needed: 3600,
      available: 1800,
    });
    assert.deepEqual(await me.quota('hpc_two', 'proj_hpc_two_01'), during);
    await waitForStage(me, held.body, 'RUNNING');
    releaseJob(server, held.body);
    const job = await me.waitUntilFinished(held.body);
    assert.equal(job.stage, 'COMPLETED');
    const left = (await me.quota('hpc_two', 'proj_hpc_two_01')).time_left;
    assert.ok(left > during.time_left && left <= before.time_left, `${left} seconds`);
    await state.update();
  });
});

test('all problems of this file say what to do', () => assertAllProblemsGaveAdvice());

test('the log is structured, and contains request ids and no tokens', async () => {
  await assertCleanLog(server, [server.userToken, server.adminToken]);
});
