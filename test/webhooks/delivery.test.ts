import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Webhook as Reference } from 'standardwebhooks';
import type { Caller } from '../support/api.ts';
import { contractOf } from '../support/contract.ts';
import { seenThrough } from '../support/jobs.ts';
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
} from '../support/webhooks.ts';

// What is sent to webhooks: signed as in Standard Webhooks, tried again, listed, sent again.

let server: TestServer;
let me: Caller;
const receivers: TestEndpoint[] = [];

before(async () => {
  server = await startServer({ config: webhookConfig() });
  me = (await contractOf(server)).as(server.userToken);
});
after(async () => {
  await server.dispose();
  for (const receiver of receivers) await receiver.close();
});

async function receiver(): Promise<TestEndpoint> {
  const one = await startEndpoint();
  receivers.push(one);
  return one;
}

/** Verifies as a receiver would, with the reference library; answers with the event. */
function verified(webhook: { secret: string }, { headers, body }: TestEndpoint['requests'][number]) {
  return new Reference(webhook.secret).verify(body, headers as Record<string, string>) as { type: string };
}

describe('a delivery', () => {
  test('is signed as in Standard Webhooks: the reference library verifies it, and nothing that was changed', async () => {
    const to = await receiver();
    const webhook = await registerWebhook(me, `${to.url}/hook?x=1`);
    assert.match(webhook.secret, /^whsec_[\w+/]{43}=$/);
    const delivery = await sendTestEvent(me, webhook);
    assert.deepEqual([delivery.state, delivery.tries, delivery.last_status], ['delivered', 1, 204]);
    const [one] = to.requests;
    assert.ok(one);
    assert.deepEqual([one.method, one.path, one.headers['content-type']], ['POST', '/hook?x=1', 'application/json']);
    assert.equal(one.headers['webhook-id'], delivery.message_id);
    assert.equal(verified(webhook, one).type, 'webhook.test');
    assert.throws(() => verified(webhook, { ...one, body: `${one.body} ` }));
    assert.throws(() => verified({ secret: `whsec_${Buffer.alloc(32).toString('base64')}` }, one));
    assert.throws(() => verified(webhook, { ...one, headers: { ...one.headers, 'webhook-id': 'msg_0' } }));
  });

  test('brings the events that were asked for, in their order, as they stand in the stream', async () => {
    const [all, ends] = [await receiver(), await receiver()];
    const everything = await registerWebhook(me, all.url);
    const onlyEnds = await registerWebhook(me, ends.url, ['job.ended', 'quota.threshold']);
    const job = await seenThrough(server, me, 'exit 2', { payload: { runtime: '2.0' } });
    await all.waitForRequests(4);
    await ends.waitForRequests(1);
    const page = await me.send('GET', '/events/', { accept: 'application/json' });
    const events = (page.body as { events: { data: { job_id: string } }[] }).events;
    assert.deepEqual(
      all.events(),
      events.filter(({ data }) => data.job_id === job.job_id),
    );
    assert.match(all.requests[0]?.body ?? '', /"runtime":2\.0,/);
    assert.deepEqual(
      ends.events().map(({ type, job: then }) => [type, then?.stage]),
      [['job.ended', 'FAILED']],
    );
    for (const one of all.requests) verified(everything, one);
    const ids = all.requests.map(({ headers }) => headers['webhook-id']);
    assert.equal(new Set(ids).size, 4, 'each has an id of its own');
    const [delivery] = await listDeliveries(me, onlyEnds);
    assert.deepEqual([delivery?.type, delivery?.state, delivery?.event], ['job.ended', 'delivered', events.length]);
  });

  test('is tried again under the same id until it succeeds', async () => {
    const to = await receiver();
    to.respondWith((_request, count) => ({ status: count < 3 ? 500 : 200 }));
    const webhook = await registerWebhook(me, to.url);
    const delivery = await sendTestEvent(me, webhook);
    assert.deepEqual([delivery.state, delivery.tries, delivery.last_status], ['delivered', 3, 200]);
    assert.deepEqual(new Set(to.requests.map(({ headers }) => headers['webhook-id'])), new Set([delivery.message_id]));
    for (const one of to.requests) verified(webhook, one);
    assert.equal((await getWebhook(me, webhook)).failing_since, null);
  });

  test('is given up after the last attempt, with what went wrong, and can be sent again', async () => {
    const to = await receiver();
    to.respondWith(() => ({ status: 503 }));
    const webhook = await registerWebhook(me, to.url);
    const delivery = await sendTestEvent(me, webhook);
    assert.deepEqual(
      [delivery.state, delivery.tries, delivery.last_status, delivery.last_error, delivery.next_try_at],
      ['failed', 5, 503, 'The endpoint answered 503.', null],
    );
    assert.ok((await getWebhook(me, webhook)).failing_since);
    to.respondWith(() => ({ status: 200 }));
    const path = `/webhooks/${webhook.id}/deliveries/${delivery.id}/send/`;
    const { status, body } = await sendJson<Delivery>(me, 'POST', path);
    assert.deepEqual([status, body.id, body.state], [202, delivery.id, 'pending']);
    assert.equal((await waitForDelivery(me, webhook, delivery)).state, 'delivered');
    assert.equal(to.requests.at(-1)?.headers['webhook-id'], delivery.message_id);
  });

  test('fails on what does not answer, does not exist, or answers without end', async () => {
    const to = await receiver();
    const webhook = await registerWebhook(me, to.url);
    to.respondWith(() => null);
    const { body: silent } = await sendJson<Delivery>(me, 'POST', `/webhooks/${webhook.id}/test/`);
    const seen = await until('an attempt has failed', async () => {
      const [delivery] = await listDeliveries(me, webhook);
      return delivery?.last_error ? delivery : undefined;
    });
    assert.deepEqual([seen.id, seen.last_status], [silent.id, null]);
    assert.match(seen.last_error ?? '', /did not answer within 2 s/);
    await sendJson(me, 'DELETE', `/webhooks/${webhook.id}/`);

    const endless = await registerWebhook(me, `${to.url}/endless`);
    to.respondWith(() => ({ status: 200, body: 'x'.repeat(10_000_000) }));
    assert.equal((await sendTestEvent(me, endless)).state, 'delivered', 'what it says does not matter');

    const closed = await startEndpoint();
    await closed.close();
    const nobody = await registerWebhook(me, closed.url);
    assert.match((await sendTestEvent(me, nobody)).last_error ?? '', /cannot be reached: ECONNREFUSED/);
  });
});

describe('a receiver', () => {
  test('that is dead does not hold up the others', async () => {
    const [dead, alive] = [await receiver(), await receiver()];
    dead.respondWith(() => null);
    const broken = await registerWebhook(me, dead.url);
    const working = await registerWebhook(me, alive.url);
    await seenThrough(server, me);
    await alive.waitForRequests(4);
    const waiting = await listDeliveries(me, broken);
    assert.ok(waiting.some(({ state }) => state === 'pending'));
    assert.ok((await listDeliveries(me, working)).length >= 4);
    for (const webhook of [broken, working]) await sendJson(me, 'DELETE', `/webhooks/${webhook.id}/`);
  });

  test('that chokes on one event gets the next ones nevertheless', async () => {
    const to = await receiver();
    to.respondWith(({ body }) => ({ status: body.includes('"type":"job.accepted"') ? 400 : 200 }));
    const webhook = await registerWebhook(me, to.url);
    await seenThrough(server, me);
    await until('three are delivered', async () => {
      const done = (await listDeliveries(me, webhook)).filter(({ state }) => state === 'delivered');
      return done.length === 3 ? true : undefined;
    });
    await sendJson(me, 'DELETE', `/webhooks/${webhook.id}/`);
  });

  test('changes over to a new secret in its own time', async () => {
    const to = await receiver();
    const webhook = await registerWebhook(me, to.url);
    const { body: rotated, status } = await sendJson<Required<Webhook>>(me, 'POST', `/webhooks/${webhook.id}/secret/`);
    assert.equal(status, 200);
    assert.notEqual(rotated.secret, webhook.secret);
    await sendTestEvent(me, webhook);
    const [one] = to.requests;
    assert.ok(one);
    for (const { secret } of [webhook, rotated]) assert.equal(verified({ secret }, one).type, 'webhook.test');
  });

  test('that answers 410 is disabled at once, and its owner is told', async () => {
    const to = await receiver();
    to.respondWith(() => ({ status: 410 }));
    const webhook = await registerWebhook(me, to.url);
    await sendJson(me, 'POST', `/webhooks/${webhook.id}/test/`);
    const disabled = await until('it is disabled', async () => {
      const now = await getWebhook(me, webhook);
      return now.active ? undefined : now;
    });
    assert.match(disabled.disabled_reason ?? '', /410/);
    const page = await me.send('GET', '/events/?limit=1000', { accept: 'application/json' });
    const told = (page.body as { events: { type: string; data: object }[] }).events.at(-1);
    assert.deepEqual(told?.type, 'webhook.disabled');
    assert.deepEqual(told?.data, { webhook_id: webhook.id, url: webhook.url, reason: disabled.disabled_reason });
    assert.equal((await sendJson(me, 'POST', `/webhooks/${webhook.id}/test/`)).status, 409);

    to.respondWith(() => ({ status: 200 }));
    const { body: enabled } = await sendJson<Webhook>(me, 'PATCH', `/webhooks/${webhook.id}/`, { active: true });
    assert.deepEqual([enabled.active, enabled.disabled_reason, enabled.failing_since], [true, null, null]);
    assert.equal((await sendTestEvent(me, webhook)).state, 'delivered');
  });
});
