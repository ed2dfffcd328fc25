import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Caller, Job } from '../../support/api.ts';
import { loadOpenApiContract } from '../../support/contract.ts';
import {
  bashZip,
  cancelJob,
  jobPath,
  runThroughAllStages,
  submitShellLine,
  unrunnableScript,
  waitForGoScript,
  waitForStage,
} from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';

// GET /jobs/{hpc}/{project_name}/{job_id}/timeline/

interface Entry extends Record<string, unknown> {
  at: string;
  type: string;
  stage: string | null;
}

interface Timeline {
  tags: string[];
  job: Job;
  held_seconds: number;
  used_seconds: number | null;
  charged_seconds: number | null;
  refunded_seconds: number;
  space_bytes: number | null;
  started_at: string | null;
  request: Record<string, unknown>;
  entries: Entry[];
}

let server: TestServer;
let me: Caller;
let admin: Caller;
let other: Caller;

before(async () => {
  server = await startServer();
  const contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
  admin = contract.callerFor(server.adminToken);
  other = contract.callerFor(await server.token('303101'));
});
after(() => server.dispose());

const timelineOf = async (caller: Caller, job: Job, prefix = '') =>
  (await caller.get<Timeline>(`${prefix}${jobPath(job)}timeline/`)).body;

describe('the timeline of a job', () => {
  test('lists each transition with its time, and the requested, used and charged seconds', async () => {
    const payload = { core_number: '2', runtime: '0.5' };
    const job = await runThroughAllStages(server, me, 'sleep 1; exit 3', { payload });
    const { entries, ...sums } = await timelineOf(me, job);
    assert.deepEqual(sums.job, job);
    assert.deepEqual(
      entries.map(({ type, stage }) => [type, stage]),
      [
        ['job.accepted', 'QUEUED'],
        ['job.queued', 'QUEUED'],
        ['job.running', 'RUNNING'],
        ['job.ended', 'FAILED'],
      ],
    );
    const [accepted, queued, running, ended] = entries;
    assert.equal(accepted?.held_seconds, 3600);
    assert.equal(sums.held_seconds, 3600);
    assert.equal(typeof queued?.engine_id, 'string');
    assert.equal(running?.reason, null);
    assert.deepEqual([ended?.outcome, ended?.reason, ended?.exit_code], ['failed', 'exit code 3', 3]);
    assert.ok(Number(sums.used_seconds) >= 1);
    assert.equal(ended?.used_seconds, sums.used_seconds);
    assert.equal(ended?.charged_seconds, 2 * Number(sums.used_seconds));
    assert.equal(sums.charged_seconds, ended?.charged_seconds);
    assert.equal(ended?.charge_rule, 'used: failed');
    const { command, ...rest } = sums.request;
    assert.match(String(command), /; sleep 1; exit 3$/);
    assert.deepEqual(rest, { tool: null, nodes: 1, cores_per_node: 2, runtime: 0.5, params: {} });
    assert.ok(Date.parse(sums.started_at ?? '') <= Date.parse(running?.at ?? ''));
    assert.deepEqual([typeof sums.space_bytes, sums.refunded_seconds], ['number', 0]);
    assert.deepEqual(
      entries.map(({ at }) => at).toSorted(),
      entries.map(({ at }) => at),
    );
  });

  test('has no end for a running job, and shows its cancellation and deletion afterwards', async () => {
    const { body } = await submitShellLine(me, '/jobs/hpc_two/', waitForGoScript);
    await waitForStage(me, body, 'RUNNING');
    const before = await timelineOf(me, body);
    assert.deepEqual([before.used_seconds, before.charged_seconds, before.space_bytes], [null, null, null]);
    assert.equal(typeof before.started_at, 'string');
    assert.equal(before.entries.at(-1)?.type, 'job.running');
    await cancelJob(me, body);
    await me.send('DELETE', jobPath(body));
    const { entries, space_bytes } = await timelineOf(me, body);
    assert.equal(space_bytes, 0);
    assert.deepEqual(
      entries.slice(-2).map(({ type, stage, outcome }) => [type, stage, outcome]),
      [
        ['job.ended', 'CANCELED', 'cancelled'],
        ['job.deleted', 'DELETED', null],
      ],
    );
  });

  test('shows the tags of the job', async () => {
    const { body } = await me.submit('/jobs/hpc_one/', { command: 'true', tags: 'sweep-17, p=0.5 sweep-17' });
    assert.deepEqual((await timelineOf(me, body)).tags, ['sweep-17', 'p=0.5']);
    await me.waitUntilFinished(body);
    const { body: untagged } = await submitShellLine(me, '/jobs/hpc_one/', 'true');
    assert.deepEqual((await timelineOf(me, untagged)).tags, []);
  });

  test('shows the request, so that the job can be submitted again', async () => {
    const payload = { tool: 'BASH', arguments: ['-x', 'a b'], runtime: '0.25', core_number: '2' };
    const { body } = await me.submit('/jobs/hpc_two/', payload, bashZip);
    const { request } = await timelineOf(me, body);
    const params = { arguments: ['-x', 'a b'] };
    assert.deepEqual(request, { command: null, tool: 'BASH', nodes: 1, cores_per_node: 2, runtime: 0.25, params });
    const { body: again } = await me.submit('/jobs/hpc_two/', { tool: request.tool, ...params }, bashZip);
    assert.deepEqual((await timelineOf(me, again)).request.params, params);
    const { body: plain } = await me.submit('/jobs/hpc_two/', { tool: 'BASH' }, bashZip);
    assert.deepEqual((await timelineOf(me, plain)).request.params, {});
    for (const job of [body, again, plain]) await me.waitUntilFinished(job);
  });

  test('shows that a rejected job never ran and was not charged', async () => {
    const { body } = await me.submit('/jobs/hpc_one/', { command: unrunnableScript.command }, unrunnableScript.zip);
    await me.waitUntilFinished(body);
    const { entries, used_seconds, charged_seconds } = await timelineOf(me, body);
    const ended = entries.at(-1);
    assert.deepEqual([ended?.outcome, ended?.charge_rule], ['rejected', 'never ran: rejected by the system']);
    assert.match(String(ended?.reason), /run\.sh does not name its interpreter/);
    assert.deepEqual([used_seconds, charged_seconds], [0, 0]);
  });

  test('lists refunds, and subtracts them from the charge', async () => {
    const { body } = await submitShellLine(me, '/jobs/hpc_one/', 'sleep 1');
    const job = await me.waitUntilFinished(body);
    const { charged_seconds: charged } = await timelineOf(me, job);
    const refund = await admin.send(
      'POST',
      '/admin/grants/hpc_one/proj_hpc_one_01/refunds/',
      { 'content-type': 'application/json', 'idempotency-key': 'a-refund' },
      JSON.stringify({ job_id: job.job_id, amount: 1, reason: 'it was our fault' }),
    );
    assert.equal(refund.status, 201, refund.text);
    const { entries, charged_seconds: chargedAfterRefund, refunded_seconds } = await timelineOf(me, job);
    assert.equal(refunded_seconds, 1);
    const last = entries.at(-1);
    assert.deepEqual([last?.type, last?.reason, last?.charged_seconds], ['ledger.refund', 'it was our fault', -1]);
    assert.equal(chargedAfterRefund, Number(charged) - 1);
  });

  test('formats runtimes as floats with a fraction', async () => {
    const { body } = await submitShellLine(me, '/jobs/hpc_one/', 'true', { runtime: '2.0' });
    const { text } = await me.send('GET', `${jobPath(body)}timeline/`);
    assert.match(text, /"runtime":2\.0,/);
  });
});

describe('access to a timeline', () => {
  test('is limited to the owner (404 for others), and administrators can read every timeline under /admin', async () => {
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', 'true');
    const path = `${jobPath(job)}timeline/`;
    for (const [caller, requestPath, expected] of [
      [other, path, 404],
      [admin, path, 404],
      [me, `/admin${path}`, 403],
      [admin, `/admin${path}`, 200],
      [me, path.replace('proj_hpc_one_01', 'proj_hpc_two_01'), 404],
      [me, path.replace(job.job_id, 'NO-SUCH-JOB'), 404],
    ] as const) {
      const { status } = await caller.get(requestPath);
      assert.equal(status, expected, requestPath);
    }
  });
});
