import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  defaultProject,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import { type ApiResponse, type Caller, createCaller } from '../../support/api.ts';
import { exampleRequest, jobPath, waitForGoScript } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertQuotaExceeded,
  createProject,
  postCreated,
  type Quote,
  runJob,
  submitJob,
  withdraw,
  withdrawDownTo,
} from '../../support/ledger.ts';
import { assertProblem, type ProblemBody } from '../../support/problems.ts';
import { createZip } from '../../support/zip.ts';

// What a job would cost, asked beforehand, and what a refusal for lack of quota says.

const granted = 100_000;
let fixture: AccountingFixture;
let me: Caller;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 10 });
  me = await fixture.user('301901');
});
after(async () => {
  await assertLedgerBalances(fixture.admin);
  await fixture.dispose();
});

async function ask(caller: Caller, path: string, payload: unknown): Promise<ApiResponse<Quote>> {
  return (await caller.send('POST', path, { payload: JSON.stringify(payload) })) as ApiResponse<Quote>;
}

describe('a quote', () => {
  test('says what the example of the interface costs, and that it would be accepted', async () => {
    const { status, body } = await ask(me, '/quotes/hpc_one/', { command: 'sbatch run.sh', ...exampleRequest });
    assert.equal(status, 200);
    assert.deepEqual(body, {
      project_hpc: 'HPC_ONE',
      project_name: 'proj_hpc_one_01',
      runtime: 2,
      cost: 2 * 6 * 7200,
      accepted: true,
      reason: null,
      binding_account: null,
      time_left: granted - 2 * 6 * 7200,
      longest_runtime: Math.floor(granted / 12) / 3600,
    });
  });

  test('on a system that cuts runtimes down says what would be granted', async () => {
    const { body } = await ask(me, '/quotes/hpc_two/', { tool: 'BASH', ...exampleRequest });
    assert.deepEqual([body.project_hpc, body.runtime, body.cost], ['HPC_TWO', 0.5, 2 * 6 * 1800]);
    assert.equal(body.longest_runtime, 0.5, 'never more than the system allows');
  });

  test('is the same for the default project whether or not it is named', async () => {
    const payload = { command: 'true', runtime: '3' };
    assert.equal(
      (await ask(me, '/quotes/hpc_one/', payload)).text,
      (await ask(me, `/quotes/${defaultProjectPath}/`, payload)).text,
    );
    assert.equal((await ask(me, `/quotes/${defaultProjectPath}`, payload)).status, 200, 'without the last slash too');
    const second = await ask(me, '/quotes/hpc_two/proj_hpc_two_02/', { tool: 'BASH' });
    assert.equal(second.body.project_name, 'proj_hpc_two_02');
  });

  test('needs no Content-Disposition and no body, and takes no offence at either', async () => {
    const headers = { payload: '{"command":"true"}' };
    const bare = await me.send('POST', '/quotes/hpc_one/', headers);
    const disposition = { ...headers, 'content-disposition': 'attachment; filename=job.zip' };
    const whole = await me.send('POST', '/quotes/hpc_one/', disposition, await createZip({ 'a.txt': 'a' }));
    assert.deepEqual([bare.status, whole.status], [200, 200]);
    assert.equal(whole.text, bare.text);
  });

  test('of what is too much says why, which account binds, and how long would fit', async () => {
    const payload = { command: 'true', node_number: 4, core_number: 10, runtime: '1' };
    const { status, body } = await ask(me, '/quotes/hpc_one/', payload);
    assert.equal(status, 200);
    assert.deepEqual([body.cost, body.accepted, body.binding_account, body.time_left], [144_000, false, 'cap', 0]);
    assert.equal(body.longest_runtime, granted / 40 / 3600);
    assert.match(body.reason ?? '', /144000 seconds.*your own quota has only 100000 available/);
  });

  test('holds nothing: not a second, not a line in the statement, not a file', async () => {
    const before = await Promise.all(['/quotas/', '/jobs/'].map(async (path) => (await me.get(path)).text));
    const entries = (await fixture.query('select id from entries')).length;
    await Promise.all(
      Array.from({ length: 30 }, () => ask(me, '/quotes/hpc_one/', { command: 'true', core_number: 27 })),
    );
    const after = await Promise.all(['/quotas/', '/jobs/'].map(async (path) => (await me.get(path)).text));
    assert.deepEqual(after, before);
    assert.equal((await fixture.query('select id from entries')).length, entries);
  });

  test('takes what running jobs hold as not available', async () => {
    const caller = await fixture.user('301902');
    const job = await submitJob(caller, { command: waitForGoScript, runtime: 10 });
    const { body } = await ask(caller, '/quotes/hpc_one/', { command: 'true', runtime: 1 });
    assert.equal(body.time_left, granted - 36_000 - 3600);
    await caller.send('DELETE', jobPath(job));
    await caller.waitUntilFinished(job);
  });

  test('says no where every submission would be refused for want of space', async () => {
    const caller = await fixture.user('301903');
    await withdrawDownTo(fixture.admin, '301903', { space: 1 });
    const job = await runJob(caller, { command: 'head -c 5000 /dev/zero > out.bin' });
    assertQuotaExceeded(await caller.submit('/jobs/hpc_one/', { command: 'true' }), { resource: 'space' });
    const { body } = await ask(caller, '/quotes/hpc_one/', { command: 'true' });
    await caller.send('DELETE', jobPath(job));
    assert.equal(body.accepted, false, 'files beyond the quota block new jobs, and the quote must say so');
  });

  test('is refused as the submission would be: not a member, no such place, no token, another method', async () => {
    const project = await createProject(fixture.admin, 'elsewhere', [], { timeSeconds: 10 });
    const payload = { command: 'true' };
    assertProblem(await ask(me, `/quotes/${project}/`, payload), { status: 403, code: 'not_a_member' });
    assertProblem(await ask(me, '/quotes/hpc_three/', payload), { status: 404, code: 'system_unknown' });
    assertProblem(await ask(me, '/quotes/hpc_one/nowhere/', payload), { status: 404, code: 'project_unknown' });
    const nobody = createCaller(fixture.server.url, null);
    assertProblem(await ask(nobody, '/quotes/hpc_one/', payload), { status: 401, code: 'token_missing' });
    const answer = await me.send('GET', '/quotes/hpc_one/');
    assertProblem(answer, { status: 405, code: 'method_not_allowed' });
    assert.equal(answer.headers.get('allow'), 'POST');
  });
});

describe('a bad Payload is refused by a quote in the words of a submission', () => {
  const bad: [what: string, header: string | undefined][] = [
    ['none', undefined],
    ['no JSON', '{'],
    ['no object', '[]'],
    ['no command', '{}'],
    ['a tool on a batch system', '{"command":"true","tool":"BASH"}'],
    ['an unknown field', '{"command":"true","cores":"1"}'],
    ['no nodes', '{"command":"true","node_number":"0"}'],
    ['a fraction of a core', '{"command":"true","core_number":"1.5"}'],
    ['too many cores', '{"command":"true","core_number":"129"}'],
    ['no runtime', '{"command":"true","runtime":"0"}'],
    ['too long a runtime', '{"command":"true","runtime":"48.1"}'],
    ['several faults', '{"node_number":"x","core_number":"x","runtime":"x","title":7}'],
  ];
  for (const [what, header] of bad) {
    test(what, async () => {
      const headers: Record<string, string> = header === undefined ? {} : { payload: header };
      const quoted = await me.send('POST', '/quotes/hpc_one/', headers);
      const disposition = { ...headers, 'content-disposition': 'attachment; filename=job.zip' };
      const answer = await me.send('POST', '/jobs/hpc_one/', disposition);
      const { request_id: _one, ...refusal } = assertProblem(quoted, { status: 400, code: 'invalid_payload' });
      const { request_id: _other, ...expected } = answer.body as ProblemBody;
      assert.deepEqual(refusal, expected);
    });
  }
});

describe('longest_runtime', () => {
  const allocations = [
    [1, 1],
    [1, 3],
    [2, 7],
    [5, 11],
    [13, 17],
    [64, 128],
  ] as const;

  test('is accepted when asked for, to the last bit, and a second more is not', async () => {
    const caller = await fixture.user('301911');
    // A number that nothing divides.
    await withdrawDownTo(fixture.admin, '301911', { time: 9973 });
    for (const [node_number, core_number] of allocations) {
      const allocation = { command: 'true', node_number, core_number };
      const { body: first } = await ask(caller, '/quotes/hpc_one/', allocation);
      const fits = Math.floor(9973 / (node_number * core_number));
      assert.equal(first.longest_runtime, fits / 3600);
      if (fits === 0) continue;
      const longest = { ...allocation, runtime: first.longest_runtime };
      const { body: quote } = await ask(caller, '/quotes/hpc_one/', longest);
      assert.deepEqual([quote.accepted, quote.cost], [true, fits * node_number * core_number]);
      const { body: more } = await ask(caller, '/quotes/hpc_one/', { ...allocation, runtime: (fits + 1) / 3600 });
      assert.equal(more.accepted, false);
      assert.equal(more.longest_runtime, first.longest_runtime);
    }
  });

  test('makes a submission that is accepted, as a number or as text', async () => {
    const caller = await fixture.user('301912');
    await withdrawDownTo(fixture.admin, '301912', { time: 7919 });
    for (const [node_number, core_number] of [
      [1, 1],
      [1, 7],
      [3, 31],
    ] as const) {
      const allocation = { command: waitForGoScript, node_number, core_number };
      const { body: quote } = await ask(caller, '/quotes/hpc_one/', allocation);
      for (const runtime of [quote.longest_runtime, String(quote.longest_runtime)]) {
        const job = await submitJob(caller, { ...allocation, runtime });
        const held = Math.floor(7919 / (node_number * core_number)) * node_number * core_number;
        const { time_left } = await caller.quota(defaultProject.hpc, defaultProject.project);
        await caller.send('DELETE', jobPath(job));
        await caller.waitUntilFinished(job);
        assert.equal(time_left, 7919 - held);
        // What it may have used is given back, so that the next one finds what this one found.
        const { body: quota } = await caller.get<{ time_left: number }>(`/quotas/${defaultProjectPath}/`);
        const used = 7919 - quota.time_left;
        const refund = { job_id: job.job_id, amount: used, reason: 'it was a test' };
        if (used > 0) await postCreated(fixture.admin, `/admin/grants/${defaultProjectPath}/refunds/`, refund);
      }
    }
  });

  test('holds for any quota that there can be', async () => {
    const caller = await fixture.user('301913');
    const project = await createProject(fixture.admin, 'any', ['301913'], { timeSeconds: 1_000_000 });
    let left = 1_000_000;
    for (const amount of [1, 7, 13, 12_345, 99_991, 300_007, 543_210, 43_000]) {
      await withdraw(fixture.admin, '301913', amount, { project });
      left -= amount;
      for (const [node_number, core_number] of allocations) {
        const allocation = { command: 'true', node_number, core_number };
        const { body: quote } = await ask(caller, `/quotes/${project}/`, allocation);
        if (quote.longest_runtime === 0) {
          assert.ok(left < node_number * core_number);
          continue;
        }
        const { body } = await ask(caller, `/quotes/${project}/`, { ...allocation, runtime: quote.longest_runtime });
        assert.equal(body.accepted, true, `${quote.longest_runtime} h of ${node_number} × ${core_number} in ${left} s`);
      }
    }
  });
});

describe('a refusal for lack of quota', () => {
  test('of time carries needed, available, the account and the longest runtime, as the quote does', async () => {
    const payload = { command: 'true', node_number: 4, core_number: 10, runtime: '1' };
    const { body: quote } = await ask(me, '/quotes/hpc_one/', payload);
    const problem = assertQuotaExceeded(await me.submit('/jobs/hpc_one/', payload), {
      resource: 'time',
      unit: 'seconds',
      account: 'cap',
      needed: quote.cost,
      available: granted,
      longest_runtime: quote.longest_runtime,
    });
    assert.equal(problem.detail, quote.reason);
    assert.match(problem.detail, /A runtime of up to [\d.]+ hours would fit\./);
  });

  test('of time, when not even a second fits, says so', async () => {
    const caller = await fixture.user('301921');
    await withdrawDownTo(fixture.admin, '301921', { time: 3 });
    const problem = assertQuotaExceeded(await caller.submit('/jobs/hpc_one/', { command: 'true', core_number: 4 }), {
      needed: 4 * 3600,
      available: 3,
      longest_runtime: 0,
    });
    assert.doesNotMatch(problem.detail, /would fit/);
  });

  test('of space is in KB, as space_left is', async () => {
    const caller = await fixture.user('301922');
    const zip = await createZip({ 'a.bin': 'x'.repeat(10_001) });
    assertQuotaExceeded(await caller.submit('/jobs/hpc_one/', { command: 'true' }, zip), {
      resource: 'space',
      unit: 'KB',
      account: 'cap',
      needed: 10.001,
      available: 10,
    });
    assert.equal((await caller.get('/jobs/')).text, '[]');
    assert.match((await caller.get(`/quotas/${defaultProjectPath}/`)).text, /"space_left":10\.0,"time_left":100000,/);
  });
});
