import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ApiResponse, Caller } from '../support/api.ts';
import { loadOpenApiContract, type Problem } from '../support/contract.ts';
import { runThroughAllStages } from '../support/jobs.ts';
import { assertCleanLog } from '../support/logs.ts';
import { startServer, type TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../support/webhook-endpoint.ts';
import {
  type Delivery,
  listDeliveries,
  registerWebhook,
  sendJson,
  type Webhook,
  webhookConfig,
  webhookTuning,
} from '../support/webhooks.ts';

let server: TestServer;
let endpoint: TestEndpoint;
let me: Caller;
let other: Caller;
let admin: Caller;
const secrets: string[] = [];

before(async () => {
  endpoint = await startEndpoint();
  server = await startServer({ config: { ...webhookConfig(), limits: { webhooks: 3 } }, tuning: webhookTuning });
  const contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
  other = contract.callerFor(await server.token('303301'));
  admin = contract.callerFor(server.adminToken);
});
after(async () => {
  await assertCleanLog(server, secrets);
  await server.dispose();
  await endpoint.close();
});

describe('webhook', () => {
  let webhook: Required<Webhook>;

  test('is created with a secret that only this response contains', async () => {
    webhook = await registerWebhook(me, `${endpoint.url}/a`, ['job.ended', 'job.running', 'job.ended']);
    secrets.push(webhook.secret.replace('whsec_', ''));
    const { secret: _secret, ...publicWebhook } = webhook;
    assert.deepEqual(publicWebhook.events, ['job.ended', 'job.running']);
    assert.equal(publicWebhook.active, true);
    const { body: list, text } = await me.get<Webhook[]>('/webhooks/');
    assert.deepEqual(list, [publicWebhook]);
    assert.deepEqual((await me.get<Webhook>(`/webhooks/${webhook.id}/`)).body, publicWebhook);
    assert.doesNotMatch(text, /whsec_/);
  });

  test('is not created twice for the same URL of one user', async () => {
    const duplicate = { url: `${endpoint.url}/a`, events: ['*'] };
    const { status, body } = await sendJson<Problem>(me, 'POST', '/webhooks/', duplicate);
    assert.deepEqual([status, body.code], [409, 'conflict']);
    await registerWebhook(other, `${endpoint.url}/a`);
  });

  test('is created, tested and given a new secret once for each idempotency key', async () => {
    const postWithKey = (path: string, key: string, body: object | undefined) =>
      third.send(
        'POST',
        path,
        { 'idempotency-key': key, ...(body ? { 'content-type': 'application/json' } : {}) },
        body && JSON.stringify(body),
      ) as Promise<ApiResponse<Required<Webhook>>>;
    const third = (await loadOpenApiContract(server)).callerFor(await server.token('303302'));
    const request = { url: `${endpoint.url}/once`, events: ['job.ended'] };
    const first = await postWithKey('/webhooks/', 'w1', request);
    assert.equal(first.status, 201);
    secrets.push(first.body.secret.replace('whsec_', ''));
    const reordered = { events: request.events, url: request.url };
    const repeated = await postWithKey('/webhooks', 'w1', reordered);
    assert.equal(repeated.text, first.text);
    for (const { headers } of [first, repeated]) assert.equal(headers.get('cache-control'), 'no-store');
    assert.equal((await postWithKey('/webhooks/', 'w1', { ...request, description: 'other' })).status, 422);
    assert.equal((await third.get<Webhook[]>('/webhooks/')).body.length, 1);
    for (const action of ['secret', 'test']) {
      const path = `/webhooks/${first.body.id}/${action}/`;
      const firstResponse = await postWithKey(path, action, undefined);
      assert.equal((await postWithKey(path, action, undefined)).text, firstResponse.text);
      if (action !== 'secret') continue;
      secrets.push(firstResponse.body.secret.replace('whsec_', ''));
      assert.equal(firstResponse.headers.get('cache-control'), 'no-store');
    }
    assert.equal((await listDeliveries(third, first.body)).length, 1);
    await third.send('DELETE', `/webhooks/${first.body.id}/`);
  });

  test('is updated with only the given fields', async () => {
    const path = `/webhooks/${webhook.id}/`;
    const change = { events: ['*'], description: 'for the lab', url: `${endpoint.url}/b` };
    const { body } = await sendJson<Webhook>(me, 'PATCH', path, change);
    assert.deepEqual([body.events, body.description, body.url], [['*'], 'for the lab', `${endpoint.url}/b`]);
    const { body: same } = await sendJson<Webhook>(me, 'PATCH', path, { description: '' });
    assert.deepEqual([same.events, same.url], [['*'], `${endpoint.url}/b`]);
    await registerWebhook(me, `${endpoint.url}/c`);
    assert.equal((await sendJson(me, 'PATCH', path, { url: `${endpoint.url}/c` })).status, 409);
    assert.equal(
      (await sendJson<Problem>(me, 'PATCH', path, { url: 'http://10.0.0.1/' })).body.code,
      'webhook_refused',
    );
  });

  test('is refused with an invalid body', async () => {
    const url = `${endpoint.url}/bad`;
    for (const body of [
      {},
      { url },
      { events: ['*'] },
      { url, events: [] },
      { url, events: ['job.exploded'] },
      { url, events: '*' },
      { url: 7, events: [7] },
      { url, events: ['*'], secret: 'whsec_mine' },
      { url, events: ['*'], description: 'x'.repeat(201) },
    ]) {
      const response = await sendJson<Problem>(me, 'POST', '/webhooks/', body);
      assert.equal(response.status, 400, JSON.stringify(body));
    }
    for (const body of [{}, { active: false }, { secret: 'x' }, { events: [] }]) {
      assert.equal((await sendJson(me, 'PATCH', `/webhooks/${webhook.id}/`, body)).status, 400, JSON.stringify(body));
    }
    assert.equal((await me.get<Webhook[]>('/webhooks/')).body.length, 2);
  });

  test('is refused above the limit per user', async () => {
    await registerWebhook(me, `${endpoint.url}/d`);
    const { status, body } = await sendJson<Problem>(me, 'POST', '/webhooks/', {
      url: `${endpoint.url}/e`,
      events: ['*'],
    });
    assert.deepEqual([status, body.code], [409, 'too_many_webhooks']);
  });

  test('is visible to its owner only', async () => {
    const path = `/webhooks/${webhook.id}/`;
    await sendJson(me, 'POST', `${path}test/`);
    const [delivery] = await listDeliveries(me, webhook);
    assert.ok(delivery);
    const requests: [method: string, path: string, body?: object][] = [
      ['GET', path],
      ['PATCH', path, { description: 'mine' }],
      ['DELETE', path],
      ['POST', `${path}secret/`],
      ['POST', `${path}test/`],
      ['GET', `${path}deliveries/`],
      ['GET', `${path}deliveries/${delivery.id}/`],
      ['POST', `${path}deliveries/${delivery.id}/send/`],
    ];
    for (const caller of [other, admin]) {
      for (const [method, requestPath, body] of requests) {
        const response = await sendJson<Problem>(caller, method, requestPath, body);
        assert.deepEqual([response.status, response.body.code], [404, 'webhook_unknown'], `${method} ${requestPath}`);
      }
    }
    for (const invalidId of ['x', '0', '-1', '1.5', '9'.repeat(30), '%20']) {
      assert.equal((await me.get(`/webhooks/${invalidId}/`)).status, 404, invalidId);
      assert.equal((await me.get(`${path}deliveries/${invalidId}/`)).status, 404, invalidId);
    }
    const [otherWebhook] = (await other.get<Webhook[]>('/webhooks/')).body;
    assert.ok(otherWebhook);
    const mismatchedPath = `/webhooks/${otherWebhook.id}/deliveries/${delivery.id}/`;
    assert.equal((await other.get(mismatchedPath)).status, 404, 'a delivery of another webhook');
  });

  test('gets only events of its owner', async () => {
    const countBefore = endpoint.requests.length;
    await runThroughAllStages(server, other);
    await endpoint.waitForRequests(countBefore + 4);
    const arrived = endpoint.events().slice(countBefore);
    assert.deepEqual([...new Set(arrived.flatMap(({ job }) => (job ? [job.owner] : [])))], ['303301']);
  });

  test('lists its deliveries in pages, newest first', async () => {
    for (let n = 0; n < 4; n++) await sendJson(me, 'POST', `/webhooks/${webhook.id}/test/`);
    const all = await listDeliveries(me, webhook);
    const path = `/webhooks/${webhook.id}/deliveries/`;
    const { body: first } = await me.get<Delivery[]>(`${path}?limit=2`);
    const { body: second } = await me.get<Delivery[]>(`${path}?limit=2&before=${first[1]?.id}`);
    assert.deepEqual(
      [...first, ...second].map(({ id }) => id),
      all.slice(0, 4).map(({ id }) => id),
    );
    assert.equal((await me.get(`${path}?limit=0`)).status, 400);
  });

  test('is deleted together with its pending deliveries', async () => {
    endpoint.respondWith(() => ({ status: 500 }));
    await sendJson(me, 'POST', `/webhooks/${webhook.id}/test/`);
    const { status, body } = await sendJson<Webhook>(me, 'DELETE', `/webhooks/${webhook.id}/`);
    assert.deepEqual([status, body.id], [200, webhook.id]);
    assert.equal((await me.get(`/webhooks/${webhook.id}/`)).status, 404);
    assert.equal((await sendJson(me, 'DELETE', `/webhooks/${webhook.id}/`)).status, 404);
    endpoint.respondWith(() => ({ status: 204 }));
  });
});

describe('administrator', () => {
  test('lists the webhooks of all users without their secrets; other users get 403', async () => {
    const { body, text } = await admin.get<Webhook[]>('/admin/webhooks/');
    assert.deepEqual(new Set(body.map(({ user }) => user)), new Set(['301330', '303301']));
    assert.doesNotMatch(text, /whsec_/);
    const { body: ofUser } = await admin.get<Webhook[]>('/admin/webhooks/303301/');
    assert.deepEqual(
      ofUser.map(({ user }) => user),
      ['303301'],
    );
    for (const path of ['/admin/webhooks/', '/admin/webhooks/303301/']) assert.equal((await me.get(path)).status, 403);
    assert.equal((await admin.get('/admin/webhooks/999999/')).status, 404);
  });

  test('can disable a webhook, which sends an event to its owner and is recorded in the audit trail', async () => {
    const [webhook] = (await other.get<Webhook[]>('/webhooks/')).body;
    assert.ok(webhook);
    const path = `/admin/webhooks/303301/${webhook.id}/disable/`;
    assert.equal((await sendJson(me, 'POST', path, { reason: 'I do not like it' })).status, 403);
    for (const _ of ['first request', 'repeated request']) {
      const { status, body } = await sendJson<Webhook>(admin, 'POST', path, { reason: 'it floods a host' });
      assert.deepEqual([status, body.active, body.disabled_reason], [200, false, 'it floods a host']);
    }
    const page = await other.send('GET', '/events/?limit=1000', { accept: 'application/json' });
    const disabledEvents = (page.body as { events: { type: string }[] }).events.filter(
      ({ type }) => type === 'webhook.disabled',
    );
    assert.equal(disabledEvents.length, 1);
    const { body: audit } = await admin.get<{ action: string; subject: string }[]>('/admin/audit/');
    assert.deepEqual([audit[0]?.action, audit[0]?.subject], ['webhook.disable', `303301/${webhook.id}`]);
    const unknownPath = `/admin/webhooks/303301/999999/disable/`;
    assert.equal((await sendJson(admin, 'POST', unknownPath, { reason: 'no such thing' })).status, 404);
    const before = (await listDeliveries(other, webhook)).length;
    await runThroughAllStages(server, other);
    assert.equal(
      (await listDeliveries(other, webhook)).length,
      before,
      'no deliveries are queued for a disabled webhook',
    );
  });

  test('alone can enable a webhook again that an administrator has disabled', async () => {
    const [webhook] = (await other.get<Webhook[]>('/webhooks/')).body;
    assert.ok(webhook);
    assert.deepEqual([webhook.active, webhook.disabled_by], [false, 'administrator']);
    const path = `/webhooks/${webhook.id}/`;
    const attempts: [method: string, path: string, body?: object][] = [
      ['PATCH', path, { active: true }],
      ['PATCH', path, { active: true, url: `${endpoint.url}/elsewhere` }],
      ['PATCH', path, { url: `${endpoint.url}/elsewhere` }],
      ['DELETE', path],
      ['POST', `${path}test/`],
    ];
    for (const [method, requestPath, body] of attempts) {
      const response = await sendJson<Problem>(other, method, requestPath, body);
      assert.deepEqual([response.status, response.body.code], [403, 'forbidden'], `${method} ${requestPath}`);
      assert.match(response.body.detail, /An administrator has disabled the webhook: it floods a host/);
    }
    const again = await sendJson(other, 'POST', '/webhooks/', { url: webhook.url, events: ['*'] });
    assert.equal(again.status, 409, 'the same URL cannot be registered again');
    const otherQuery = { url: `${webhook.url}?x`, events: ['*'] };
    assert.equal((await sendJson(other, 'POST', '/webhooks/', otherQuery)).status, 403, 'nor with another query');
    const changeable = await registerWebhook(other, `${webhook.url}/changeable`);
    assert.equal((await sendJson(other, 'PATCH', `/webhooks/${changeable.id}/`, { url: otherQuery.url })).status, 403);
    assert.equal((await sendJson(other, 'DELETE', `/webhooks/${changeable.id}/`)).status, 200);
    assert.deepEqual((await other.get<Webhook>(path)).body, webhook);

    const enablePath = `/admin/webhooks/303301/${webhook.id}/enable/`;
    assert.equal((await sendJson(other, 'POST', enablePath, { reason: 'please' })).status, 403);
    const { body: enabled } = await sendJson<Webhook>(admin, 'POST', enablePath, { reason: 'it is repaired' });
    assert.deepEqual([enabled.active, enabled.disabled_by, enabled.disabled_reason], [true, null, null]);
    const { body: audit } = await admin.get<{ action: string; subject: string }[]>('/admin/audit/');
    assert.deepEqual([audit[0]?.action, audit[0]?.subject], ['webhook.enable', `303301/${webhook.id}`]);
    assert.equal((await sendJson(other, 'PATCH', path, { description: 'mine again' })).status, 200);
  });
});

describe('webhook that fails for too long', () => {
  test('is disabled, its owner gets an event, and its pending deliveries fail', async () => {
    const tuning = { ...webhookTuning, webhookDisableAfterMs: 500, webhookRetrySeconds: Array(50).fill(0.1) };
    const shortLimitServer = await startServer({ config: webhookConfig(), tuning });
    const eventEndpoint = await startEndpoint();
    try {
      const caller = (await loadOpenApiContract(shortLimitServer)).callerFor(shortLimitServer.userToken);
      endpoint.respondWith(() => ({ status: 500 }));
      const webhook = await registerWebhook(caller, endpoint.url);
      await registerWebhook(caller, eventEndpoint.url, ['webhook.disabled']);
      for (let n = 0; n < 2; n++) await sendJson(caller, 'POST', `/webhooks/${webhook.id}/test/`);
      const disabled = await until('the webhook is disabled', async () => {
        const { body } = await caller.get<Webhook>(`/webhooks/${webhook.id}/`);
        return body.active ? undefined : body;
      });
      assert.match(disabled.disabled_reason ?? '', /failed for too long\. The event was not delivered \(5xx\)/);
      assert.deepEqual(
        (await listDeliveries(caller, webhook)).map(({ state }) => state),
        ['failed', 'failed'],
      );
      assert.equal(disabled.disabled_by, 'bursar');
      const admins = (await loadOpenApiContract(shortLimitServer)).callerFor(shortLimitServer.adminToken);
      const stopPath = `/admin/webhooks/${webhook.user}/${webhook.id}/disable/`;
      const { body: stopped } = await sendJson<Webhook>(admins, 'POST', stopPath, { reason: 'for good' });
      assert.deepEqual([stopped.disabled_by, stopped.disabled_reason], ['administrator', 'for good']);
      assert.equal((await sendJson(caller, 'PATCH', `/webhooks/${webhook.id}/`, { active: true })).status, 403);
      await eventEndpoint.waitForRequests(1);
      assert.equal(eventEndpoint.events()[0]?.data.webhook_id, webhook.id);
    } finally {
      // An attempt to reach an endpoint that is closed would last until its timeout.
      await shortLimitServer.dispose();
      await eventEndpoint.close();
    }
  });
});
