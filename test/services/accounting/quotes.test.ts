import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  defaultProject,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import { type ApiResponse, type Caller, createCaller } from '../../support/api.ts';
import { cancelJob, exampleRequest, jobPath, waitForGoScript } from '../../support/jobs.ts';
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

// Quotes (the cost of a job before its submission), and rejections because of an exceeded quota.

const granted = 100_000;
let fixture: AccountingFixture;
let me: Caller;

before(async () => {
  fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 10 });
  me = await fixture.user('301901');
});
after(async () => {
  await assertLedgerBalances(fixture.server);
  await fixture.dispose();
});

async function requestQuote(caller: Caller, path: string, payload: unknown): Promise<ApiResponse<Quote>> {
  return (await caller.send('POST', path, { payload: JSON.stringify(payload) })) as ApiResponse<Quote>;
}

describe('a quote', () => {
  test('returns the cost of the example job, and that it would be accepted', async () => {
    const { status, body } = await requestQuote(me, '/quotes/hpc_one/', {
      command: 'sbatch run.sh',
      ...exampleRequest,
    });
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

  test('shows the granted runtime on a system that reduces runtimes', async () => {
    const { body } = await requestQuote(me, '/quotes/hpc_two/', { tool: 'BASH', ...exampleRequest });
    assert.deepEqual([body.project_hpc, body.runtime, body.cost], ['HPC_TWO', 0.5, 2 * 6 * 1800]);
    assert.equal(body.longest_runtime, 0.5, 'at most the limit of the system');
  });

  test('is the same with and without the name of the default project', async () => {
    const payload = { command: 'true', runtime: '3' };
    assert.equal(
      (await requestQuote(me, '/quotes/hpc_one/', payload)).text,
      (await requestQuote(me, `/quotes/${defaultProjectPath}/`, payload)).text,
    );
    assert.equal(
      (await requestQuote(me, `/quotes/${defaultProjectPath}`, payload)).status,
      200,
      'without the trailing slash',
    );
    const second = await requestQuote(me, '/quotes/hpc_two/proj_hpc_two_02/', { tool: 'BASH' });
    assert.equal(second.body.project_name, 'proj_hpc_two_02');
  });

  test('needs no Content-Disposition and no body, but accepts both', async () => {
    const headers = { payload: '{"command":"true"}' };
    const minimal = await me.send('POST', '/quotes/hpc_one/', headers);
    const disposition = { ...headers, 'content-disposition': 'attachment; filename=job.zip' };
    const complete = await me.send('POST', '/quotes/hpc_one/', disposition, await createZip({ 'a.txt': 'a' }));
    assert.deepEqual([minimal.status, complete.status], [200, 200]);
    assert.equal(complete.text, minimal.text);
  });

  test('above the quota returns the reason, the exhausted account and the longest runtime that fits', async () => {
    const payload = { command: 'true', node_number: 4, core_number: 10, runtime: '1' };
    const { status, body } = await requestQuote(me, '/quotes/hpc_one/', payload);
    assert.equal(status, 200);
    assert.deepEqual([body.cost, body.accepted, body.binding_account, body.time_left], [144_000, false, 'cap', 0]);
    assert.equal(body.longest_runtime, granted / 40 / 3600);
    assert.match(body.reason ?? '', /needs 40 core-h of time.*your own quota has only 27\.8 core-h available/);
  });

  test('holds no quota and writes no ledger entry', async () => {
    const before = await Promise.all(['/quotas/', '/jobs/'].map(async (path) => (await me.get(path)).text));
    const entries = (await fixture.query('select id from entries')).length;
    await Promise.all(
      Array.from({ length: 30 }, () => requestQuote(me, '/quotes/hpc_one/', { command: 'true', core_number: 27 })),
    );
    const after = await Promise.all(['/quotas/', '/jobs/'].map(async (path) => (await me.get(path)).text));
    assert.deepEqual(after, before);
    assert.equal((await fixture.query('select id from entries')).length, entries);
  });

  test('does not count time held by running jobs as available', async () => {
    const caller = await fixture.user('301902');
    const job = await submitJob(caller, { command: waitForGoScript, runtime: 10 });
    const { body } = await requestQuote(caller, '/quotes/hpc_one/', { command: 'true', runtime: 1 });
    assert.equal(body.time_left, granted - 36_000 - 3600);
    await cancelJob(caller, job);
  });

  test('is not accepted if the space quota is exceeded', async () => {
    const caller = await fixture.user('301903');
    await withdrawDownTo(fixture.admin, '301903', { space: 1 });
    const job = await runJob(caller, { command: 'head -c 5000 /dev/zero > out.bin' });
    assertQuotaExceeded(await caller.submit('/jobs/hpc_one/', { command: 'true' }), { resource: 'space' });
    const { body } = await requestQuote(caller, '/quotes/hpc_one/', { command: 'true' });
    await caller.send('DELETE', jobPath(job));
    assert.equal(body.accepted, false, 'an exceeded space quota blocks new jobs, so the quote must not be accepted');
  });

  test('is rejected like a submission: not a member, unknown system or project, no token, wrong method', async () => {
    const project = await createProject(fixture.admin, 'elsewhere', [], { timeSeconds: 10 });
    const payload = { command: 'true' };
    assertProblem(await requestQuote(me, `/quotes/${project}/`, payload), { status: 403, code: 'not_a_member' });
    assertProblem(await requestQuote(me, '/quotes/hpc_three/', payload), { status: 404, code: 'system_unknown' });
    assertProblem(await requestQuote(me, '/quotes/hpc_one/nowhere/', payload), {
      status: 404,
      code: 'project_unknown',
    });
    const anonymous = createCaller(fixture.server.url, null);
    assertProblem(await requestQuote(anonymous, '/quotes/hpc_one/', payload), { status: 401, code: 'token_missing' });
    const response = await me.send('GET', '/quotes/hpc_one/');
    assertProblem(response, { status: 405, code: 'method_not_allowed' });
    assert.equal(response.headers.get('allow'), 'POST');
  });
});

describe('an invalid Payload is rejected by a quote with the same problem as by a submission', () => {
  const invalidPayloads: [description: string, header: string | undefined][] = [
    ['no header', undefined],
    ['invalid JSON', '{'],
    ['not an object', '[]'],
    ['no command', '{}'],
    ['a tool on a batch system', '{"command":"true","tool":"BASH"}'],
    ['an unknown field', '{"command":"true","cores":"1"}'],
    ['zero nodes', '{"command":"true","node_number":"0"}'],
    ['a fraction of a core', '{"command":"true","core_number":"1.5"}'],
    ['too many cores', '{"command":"true","core_number":"129"}'],
    ['a runtime of zero', '{"command":"true","runtime":"0"}'],
    ['too long a runtime', '{"command":"true","runtime":"48.1"}'],
    ['several invalid fields', '{"node_number":"x","core_number":"x","runtime":"x","title":7}'],
  ];
  for (const [description, header] of invalidPayloads) {
    test(description, async () => {
      const headers: Record<string, string> = header === undefined ? {} : { payload: header };
      const quoted = await me.send('POST', '/quotes/hpc_one/', headers);
      const disposition = { ...headers, 'content-disposition': 'attachment; filename=job.zip' };
      const response = await me.send('POST', '/jobs/hpc_one/', disposition);
      const { request_id: _quoteId, ...problem } = assertProblem(quoted, { status: 400, code: 'invalid_payload' });
      const { request_id: _submissionId, ...expected } = response.body as ProblemBody;
      assert.deepEqual(problem, expected);
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

  test('is accepted in a second quote, and one second more is not', async () => {
    const caller = await fixture.user('301911');
    // A prime number.
    await withdrawDownTo(fixture.admin, '301911', { time: 9973 });
    for (const [node_number, core_number] of allocations) {
      const allocation = { command: 'true', node_number, core_number };
      const { body: first } = await requestQuote(caller, '/quotes/hpc_one/', allocation);
      const maxSeconds = Math.floor(9973 / (node_number * core_number));
      assert.equal(first.longest_runtime, maxSeconds / 3600);
      if (maxSeconds === 0) continue;
      const longest = { ...allocation, runtime: first.longest_runtime };
      const { body: quote } = await requestQuote(caller, '/quotes/hpc_one/', longest);
      assert.deepEqual([quote.accepted, quote.cost], [true, maxSeconds * node_number * core_number]);
      const { body: more } = await requestQuote(caller, '/quotes/hpc_one/', {
        ...allocation,
        runtime: (maxSeconds + 1) / 3600,
      });
      assert.equal(more.accepted, false);
      assert.equal(more.longest_runtime, first.longest_runtime);
    }
  });

  test('is accepted in a submission, as a number or as text', async () => {
    const caller = await fixture.user('301912');
    await withdrawDownTo(fixture.admin, '301912', { time: 7919 });
    for (const [node_number, core_number] of [
      [1, 1],
      [1, 7],
      [3, 31],
    ] as const) {
      const allocation = { command: waitForGoScript, node_number, core_number };
      const { body: quote } = await requestQuote(caller, '/quotes/hpc_one/', allocation);
      for (const runtime of [quote.longest_runtime, String(quote.longest_runtime)]) {
        const job = await submitJob(caller, { ...allocation, runtime });
        const held = Math.floor(7919 / (node_number * core_number)) * node_number * core_number;
        const { time_left } = await caller.quota(defaultProject.hpc, defaultProject.project);
        await cancelJob(caller, job);
        assert.equal(time_left, 7919 - held);
        // Refunds the used time, so that the next job has the same quota.
        const { body: quota } = await caller.get<{ time_left: number }>(`/quotas/${defaultProjectPath}/`);
        const used = 7919 - quota.time_left;
        const refund = { job_id: job.job_id, amount: used, reason: 'it was a test' };
        if (used > 0) await postCreated(fixture.admin, `/admin/grants/${defaultProjectPath}/refunds/`, refund);
      }
    }
  });

  test('is accepted for any remaining quota', async () => {
    const caller = await fixture.user('301913');
    const project = await createProject(fixture.admin, 'any', ['301913'], { timeSeconds: 1_000_000 });
    let left = 1_000_000;
    for (const amount of [1, 7, 13, 12_345, 99_991, 300_007, 543_210, 43_000]) {
      await withdraw(fixture.admin, '301913', amount, { project });
      left -= amount;
      for (const [node_number, core_number] of allocations) {
        const allocation = { command: 'true', node_number, core_number };
        const { body: quote } = await requestQuote(caller, `/quotes/${project}/`, allocation);
        if (quote.longest_runtime === 0) {
          assert.ok(left < node_number * core_number);
          continue;
        }
        const { body } = await requestQuote(caller, `/quotes/${project}/`, {
          ...allocation,
          runtime: quote.longest_runtime,
        });
        assert.equal(body.accepted, true, `${quote.longest_runtime} h of ${node_number} × ${core_number} in ${left} s`);
      }
    }
  });
});

describe('quota_exceeded', () => {
  test('for time contains the same needed and available time, account and longest runtime as the quote', async () => {
    const payload = { command: 'true', node_number: 4, core_number: 10, runtime: '1' };
    const { body: quote } = await requestQuote(me, '/quotes/hpc_one/', payload);
    const problem = assertQuotaExceeded(await me.submit('/jobs/hpc_one/', payload), {
      resource: 'time',
      unit: 'seconds',
      account: 'cap',
      needed: quote.cost,
      available: granted,
      longest_runtime: quote.longest_runtime,
    });
    assert.equal(problem.detail, quote.reason);
    assert.match(problem.detail, /A runtime of up to [\d.]+ h would fit\./);
  });

  test('for time does not suggest a runtime if not even a second fits', async () => {
    const caller = await fixture.user('301921');
    await withdrawDownTo(fixture.admin, '301921', { time: 3 });
    const problem = assertQuotaExceeded(await caller.submit('/jobs/hpc_one/', { command: 'true', core_number: 4 }), {
      needed: 4 * 3600,
      available: 3,
      longest_runtime: 0,
    });
    assert.doesNotMatch(problem.detail, /would fit/);
  });

  test('for space is in KB, like space_left', async () => {
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
