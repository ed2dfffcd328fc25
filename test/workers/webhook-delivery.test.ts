import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Webhook as Reference } from 'standardwebhooks';
import { type Caller, createCaller } from '../support/api.ts';
import { loadOpenApiContract } from '../support/contract.ts';
import { jobPath, runThroughAllStages, submitShellLine, waitForGoScript } from '../support/jobs.ts';
import { freePorts } from '../support/ports.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../support/webhook-endpoint.ts';
import {
  type Delivery,
  getWebhook,
  listDeliveries,
  registerWebhook,
  sendJson,
  sendTestEvent,
  type Webhook,
  waitForDelivery,
  webhookConfig,
  webhookTuning,
} from '../support/webhooks.ts';

let server: TestServer;
/** It gives up on an endpoint that does not answer before a test does. */
let impatientServer: TestServer;
let me: Caller;
const endpoints: TestEndpoint[] = [];

before(async () => {
  const config = webhookConfig();
  const impatient = { ...webhookTuning, webhookTimeoutMs: 1000, webhookRetrySeconds: [0.1, 0.1] };
  server = await startServer({ config, tuning: webhookTuning });
  impatientServer = await startServer({ config, tuning: impatient });
  me = (await loadOpenApiContract(server)).callerFor(server.userToken);
});
after(async () => {
  await Promise.all([server.dispose(), impatientServer.dispose()]);
  for (const endpoint of endpoints) await endpoint.close();
});

async function openEndpoint(): Promise<TestEndpoint> {
  const endpoint = await startEndpoint();
  endpoints.push(endpoint);
  return endpoint;
}

/** Verifies a request with the reference library, and returns the event. */
function verify(webhook: { secret: string }, { headers, body }: TestEndpoint['requests'][number]) {
  return new Reference(webhook.secret).verify(body, headers as Record<string, string>) as { type: string };
}

describe('webhook delivery', () => {
  test('is signed as in Standard Webhooks: the reference library accepts it, and rejects changed messages', async () => {
    const endpoint = await openEndpoint();
    const webhook = await registerWebhook(me, `${endpoint.url}/hook?x=1`);
    assert.match(webhook.secret, /^whsec_[\w+/]{43}=$/);
    const delivery = await sendTestEvent(me, webhook);
    assert.deepEqual([delivery.state, delivery.tries, delivery.last_result], ['delivered', 1, '2xx']);
    const [request] = endpoint.requests;
    assert.ok(request);
    assert.deepEqual(
      [request.method, request.path, request.headers['content-type']],
      ['POST', '/hook?x=1', 'application/json'],
    );
    assert.equal(request.headers['webhook-id'], delivery.message_id);
    assert.equal(verify(webhook, request).type, 'webhook.test');
    assert.throws(() => verify(webhook, { ...request, body: `${request.body} ` }));
    assert.throws(() => verify({ secret: `whsec_${Buffer.alloc(32).toString('base64')}` }, request));
    assert.throws(() => verify(webhook, { ...request, headers: { ...request.headers, 'webhook-id': 'msg_0' } }));
  });

  test('sends the subscribed events in order, with the same JSON as the event list', async () => {
    const [allEndpoint, endsEndpoint] = [await openEndpoint(), await openEndpoint()];
    const allEventsWebhook = await registerWebhook(me, allEndpoint.url);
    const endsWebhook = await registerWebhook(me, endsEndpoint.url, ['job.ended', 'quota.threshold']);
    const job = await runThroughAllStages(server, me, 'exit 2', { payload: { runtime: '2.0' } });
    await allEndpoint.waitForRequests(4);
    await endsEndpoint.waitForRequests(1);
    const page = await me.send('GET', '/events/', { accept: 'application/json' });
    const events = (page.body as { events: { data: { job_id: string } }[] }).events;
    assert.deepEqual(
      allEndpoint.events(),
      events.filter(({ data }) => data.job_id === job.job_id),
    );
    assert.match(allEndpoint.requests[0]?.body ?? '', /"runtime":2\.0,/);
    assert.deepEqual(
      endsEndpoint.events().map(({ type, job: eventJob }) => [type, eventJob?.stage]),
      [['job.ended', 'FAILED']],
    );
    for (const request of allEndpoint.requests) verify(allEventsWebhook, request);
    const ids = allEndpoint.requests.map(({ headers }) => headers['webhook-id']);
    assert.equal(new Set(ids).size, 4, 'message ids are unique');
    const [delivery] = await listDeliveries(me, endsWebhook);
    assert.ok(delivery);
    // The endpoint has it a moment before the result is stored.
    const { type, state, event } = await waitForDelivery(me, endsWebhook, delivery);
    assert.deepEqual([type, state, event], ['job.ended', 'delivered', events.length]);
  });

  test('is retried with the same message id until it succeeds', async () => {
    const endpoint = await openEndpoint();
    endpoint.respondWith((_request, count) => ({ status: count < 3 ? 500 : 200 }));
    const webhook = await registerWebhook(me, endpoint.url);
    const delivery = await sendTestEvent(me, webhook);
    assert.deepEqual([delivery.state, delivery.tries, delivery.last_result], ['delivered', 3, '2xx']);
    assert.deepEqual(
      new Set(endpoint.requests.map(({ headers }) => headers['webhook-id'])),
      new Set([delivery.message_id]),
    );
    for (const request of endpoint.requests) verify(webhook, request);
    assert.equal((await getWebhook(me, webhook)).failing_since, null);
  });

  test('fails after the last attempt, records the error, and can be sent again on request', async () => {
    const endpoint = await openEndpoint();
    endpoint.respondWith(() => ({ status: 503 }));
    const webhook = await registerWebhook(me, endpoint.url);
    const delivery = await sendTestEvent(me, webhook);
    assert.deepEqual(
      [delivery.state, delivery.tries, delivery.last_result, delivery.last_error, delivery.next_try_at],
      ['failed', 5, '5xx', 'The event was not delivered (5xx): the endpoint answered with an error.', null],
    );
    assert.ok((await getWebhook(me, webhook)).failing_since);
    endpoint.respondWith(() => ({ status: 200 }));
    const path = `/webhooks/${webhook.id}/deliveries/${delivery.id}/send/`;
    const { status, body } = await sendJson<Delivery>(me, 'POST', path);
    assert.deepEqual([status, body.id, body.state], [202, delivery.id, 'pending']);
    assert.equal((await waitForDelivery(me, webhook, delivery)).state, 'delivered');
    assert.equal(endpoint.requests.at(-1)?.headers['webhook-id'], delivery.message_id);
  });

  test('succeeds however long the response body is', async () => {
    const endpoint = await openEndpoint();
    endpoint.respondWith(() => ({ status: 200, body: 'x'.repeat(10_000_000) }));
    const webhook = await registerWebhook(me, endpoint.url);
    assert.equal((await sendTestEvent(me, webhook)).state, 'delivered', 'the response body is ignored');
  });

  test('fails in the same way if the endpoint does not answer and if it is closed', async () => {
    const caller = createCaller(impatientServer.url, impatientServer.userToken);
    const silent = await openEndpoint();
    silent.respondWith(() => null);
    const [closedPort] = await freePorts(1);
    const urls = [silent.url, `http://127.0.0.1:${closedPort}`];
    const [unanswered, refused] = await Promise.all(
      urls.map(async (url) => {
        const delivery = await sendTestEvent(caller, await registerWebhook(caller, url, ['job.ended']));
        const { state, tries, last_result, last_error } = delivery;
        return { state, tries, last_result, last_error };
      }),
    );
    assert.deepEqual([unanswered?.state, unanswered?.tries, unanswered?.last_result], ['failed', 3, 'unreachable']);
    assert.deepEqual(refused, unanswered, 'a closed and a silent port look the same');
    assert.match(impatientServer.log(), /"detail":"ECONNREFUSED"/);
  });
});

describe('webhook endpoint', () => {
  test('that does not answer does not delay other webhooks', async () => {
    const [deadEndpoint, liveEndpoint] = [await openEndpoint(), await openEndpoint()];
    deadEndpoint.respondWith(() => null);
    const caller = createCaller(impatientServer.url, await impatientServer.token('302822'));
    const broken = await registerWebhook(caller, deadEndpoint.url);
    const working = await registerWebhook(caller, liveEndpoint.url);
    await runThroughAllStages(impatientServer, caller);
    await liveEndpoint.waitForRequests(4);
    const undelivered = await listDeliveries(caller, broken);
    assert.ok(undelivered.length > 0 && undelivered.every(({ state }) => state !== 'delivered'));
    assert.ok((await listDeliveries(caller, working)).length >= 4);
  });

  test('that rejects one event still gets the next ones', async () => {
    const endpoint = await openEndpoint();
    endpoint.respondWith(({ body }) => ({ status: body.includes('"type":"job.accepted"') ? 400 : 200 }));
    const webhook = await registerWebhook(me, endpoint.url);
    await runThroughAllStages(server, me);
    await until('three events are delivered', async () => {
      const done = (await listDeliveries(me, webhook)).filter(({ state }) => state === 'delivered');
      return done.length === 3 ? true : undefined;
    });
    await sendJson(me, 'DELETE', `/webhooks/${webhook.id}/`);
  });

  test('can verify deliveries with the old and the new secret after a rotation', async () => {
    const endpoint = await openEndpoint();
    const webhook = await registerWebhook(me, endpoint.url);
    const { body: rotated, status } = await sendJson<Required<Webhook>>(me, 'POST', `/webhooks/${webhook.id}/secret/`);
    assert.equal(status, 200);
    assert.notEqual(rotated.secret, webhook.secret);
    await sendTestEvent(me, webhook);
    const [request] = endpoint.requests;
    assert.ok(request);
    for (const { secret } of [webhook, rotated]) assert.equal(verify({ secret }, request).type, 'webhook.test');
  });

  test('that answers 410 Gone is disabled at once, and its owner gets an event', async () => {
    const endpoint = await openEndpoint();
    endpoint.respondWith(() => ({ status: 410 }));
    const webhook = await registerWebhook(me, endpoint.url);
    await sendJson(me, 'POST', `/webhooks/${webhook.id}/test/`);
    const disabled = await until('the webhook is disabled', async () => {
      const current = await getWebhook(me, webhook);
      return current.active ? undefined : current;
    });
    assert.match(disabled.disabled_reason ?? '', /410/);
    const page = await me.send('GET', '/events/?limit=1000', { accept: 'application/json' });
    const lastEvent = (page.body as { events: { type: string; data: object }[] }).events.at(-1);
    assert.deepEqual(lastEvent?.type, 'webhook.disabled');
    assert.deepEqual(lastEvent?.data, { webhook_id: webhook.id, url: webhook.url, reason: disabled.disabled_reason });
    assert.equal((await sendJson(me, 'POST', `/webhooks/${webhook.id}/test/`)).status, 409);

    endpoint.respondWith(() => ({ status: 200 }));
    const { body: enabled } = await sendJson<Webhook>(me, 'PATCH', `/webhooks/${webhook.id}/`, { active: true });
    assert.deepEqual([enabled.active, enabled.disabled_reason, enabled.failing_since], [true, null, null]);
    assert.equal((await sendTestEvent(me, webhook)).state, 'delivered');
  });

  test('of a disabled user gets nothing', async () => {
    const endpoint = await openEndpoint();
    const user = createCaller(server.url, await server.token('302821'));
    const admin = createCaller(server.url, server.adminToken);
    const webhook = await registerWebhook(user, endpoint.url, ['job.cancel_requested']);
    const { body: job } = await submitShellLine(user, '/jobs/hpc_one/', waitForGoScript);
    const reason = { reason: 'because of a test' };
    await sendJson(admin, 'POST', '/admin/users/302821/disable/', reason);
    const cancelled = await sendJson(admin, 'POST', `/admin${jobPath(job)}cancel/`, reason);
    assert.equal(cancelled.status, 202, cancelled.text);
    await sendJson(admin, 'POST', '/admin/users/302821/enable/', reason);
    await sendTestEvent(user, webhook);
    assert.deepEqual(
      endpoint.requests.map((request) => verify(webhook, request).type),
      ['webhook.test'],
    );
  });

  test('to an endpoint that does not answer does not delay the stop of a server, which sends it again after a restart', async (t) => {
    const endpoint = await openEndpoint();
    endpoint.respondWith(() => null);
    const options = { config: webhookConfig(), tuning: { ...webhookTuning, webhookTimeoutMs: 240_000 } };
    const first = await startServer(options);
    let second: TestServer | undefined;
    t.after(async () => {
      await second?.stop();
      await first.dispose();
    });
    const token = await first.token('302821');
    const webhook = await registerWebhook(createCaller(first.url, token), endpoint.url);
    const path = `/webhooks/${webhook.id}/test/`;
    const { body: delivery } = await sendJson<Delivery>(createCaller(first.url, token), 'POST', path);
    await endpoint.waitForRequests(1);
    let isStopped = false;
    void first.stop().then(() => {
      isStopped = true;
    });
    await until('the server has stopped', () => isStopped || undefined);

    endpoint.respondWith(() => ({ status: 204 }));
    second = await startServer({ ...options, data: first.data });
    const { state, tries } = await waitForDelivery(createCaller(second.url, token), webhook, delivery);
    assert.deepEqual([state, tries], ['delivered', 1]);
    const ids = endpoint.requests.map(({ headers }) => headers['webhook-id']);
    assert.deepEqual(ids, [delivery.message_id, delivery.message_id]);
  });
});
