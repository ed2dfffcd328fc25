import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ApiResponse, Caller, Job } from '../../support/api.ts';
import { loadOpenApiContract, type Problem } from '../../support/contract.ts';
import { queryDatabase } from '../../support/database.ts';
import { openEventStream, type PublicEvent } from '../../support/event-stream.ts';
import { jobPath, runThroughAllStages } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../../support/webhook-endpoint.ts';
import { listDeliveries, registerWebhook, sendJson, webhookConfig, webhookTuning } from '../../support/webhooks.ts';

// Events expire after eventRetentionDays.

describe('expired events', () => {
  let server: TestServer;
  let endpoint: TestEndpoint;
  let me: Caller;
  let old: Job;
  let recent: Job;
  const dayMs = 86_400_000;

  before(async () => {
    endpoint = await startEndpoint();
    const config = webhookConfig();
    const tuning = { ...webhookTuning, expiryIntervalMs: 100 };
    server = await startServer({ config: { ...config, eventRetentionDays: 30 }, tuning });
    me = (await loadOpenApiContract(server)).callerFor(server.userToken);
    const webhook = await registerWebhook(me, endpoint.url);
    const disabledWebhook = await registerWebhook(me, `${endpoint.url}/disabledWebhook`);
    old = await runThroughAllStages(server, me);
    // Deliveries that a disabled webhook has not got are never sent.
    await endpoint.waitForRequests(8);
    const admin = (await loadOpenApiContract(server)).callerFor(server.adminToken);
    await sendJson(admin, 'POST', `/admin/webhooks/${old.owner}/${disabledWebhook.id}/disable/`, {
      reason: 'creates another event',
    });
    await sendJson(me, 'POST', `/webhooks/${webhook.id}/test/`);
    await endpoint.waitForRequests(10);
    const longAgo = Date.now() - 31 * dayMs;
    await queryDatabase(server.data, 'update events set at = ?', [longAgo]);
    await queryDatabase(server.data, 'update deliveries set created_at = ?', [longAgo]);
    recent = await runThroughAllStages(server, me);
    await until('the old events have expired', async () => {
      const { status } = await getEvents('?after=0');
      return status === 410 ? true : undefined;
    });
  });
  after(async () => {
    await server.dispose();
    await endpoint.close();
  });

  const getEvents = async (query: string) =>
    (await me.send('GET', `/events/${query}`, { accept: 'application/json' })) as ApiResponse<{
      events: PublicEvent[];
    }>;

  test('cannot be resumed after: 410 with the position to continue from', async () => {
    for (const after of [0, 1, 4]) {
      const { status, body } = await getEvents(`?after=${after}`);
      const problem = body as unknown as Problem & { oldest: number };
      assert.deepEqual([status, problem.code, problem.oldest], [410, 'events_expired', 5]);
      assert.match(problem.detail, /after=5/);
    }
    const stream = await openEventStream(server.url, server.userToken, { headers: { 'last-event-id': '2' } });
    assert.deepEqual([stream.status, stream.headers['content-type']], [410, 'application/problem+json']);
  });

  test('are left out of a request for all events or for those after the last expired one', async () => {
    for (const query of ['', '?after=5']) {
      const { body } = await getEvents(query);
      assert.deepEqual([body.events[0]?.id, body.events[0]?.job?.job_id], [6, recent.job_id], query);
    }
  });

  test('leave no gap in the event numbers', async () => {
    const { body } = await getEvents('');
    assert.deepEqual(
      body.events.map(({ id }) => id),
      body.events.map((_event, index) => 6 + index),
    );
  });

  test('are deleted with their deliveries, test deliveries included', async () => {
    const [webhook] = (await me.get<{ id: number }[]>('/webhooks/')).body;
    assert.ok(webhook);
    const deliveries = await listDeliveries(me, webhook);
    assert.ok(deliveries.length > 0);
    assert.ok(deliveries.every(({ event }) => event !== null && event > 5));
    const rows = await queryDatabase<{ kind: string }>(server.data, 'select kind from events where seq <= ?', [5]);
    assert.ok(rows.length === 4 && rows.every(({ kind }) => kind.startsWith('job.')), 'only events of jobs are kept');
  });

  test('still appear in the timeline of their job', async () => {
    const { body } = await me.get<{ entries: { type: string }[] }>(`${jobPath(old)}timeline/`);
    assert.deepEqual(
      body.entries.map(({ type }) => type),
      ['job.accepted', 'job.queued', 'job.running', 'job.ended'],
    );
  });
});
