import assert from 'node:assert/strict';
import { readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Webhook as Reference } from 'standardwebhooks';
import { type Caller, createCaller } from '../../support/api.ts';
import { queryDatabase } from '../../support/database.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../../support/webhook-endpoint.ts';
import {
  type Delivery,
  getWebhook,
  sendJson,
  sendTestEvent,
  type Webhook,
  waitForDelivery,
  webhookConfig,
  webhookTuning,
} from '../../support/webhooks.ts';

let server: TestServer;
let endpoint: TestEndpoint;
let me: Caller;
let userToken: string;
const options = { config: webhookConfig(), tuning: webhookTuning };

before(async () => {
  endpoint = await startEndpoint();
  server = await startServer(options);
  userToken = server.userToken;
  me = createCaller(server.url, userToken);
});
after(async () => {
  await server.dispose();
  await endpoint.close();
});

const keyFile = () => join(server.data, 'webhook-key');

async function restart(change: () => void): Promise<void> {
  await server.stop();
  change();
  server = await startServer({ ...options, data: server.data });
  me = createCaller(server.url, userToken);
}

/** Sends a test event, and checks which secrets sign it. */
async function assertSigned({ id }: Webhook, valid: readonly string[], invalid: readonly string[] = []): Promise<void> {
  const { state, message_id } = await sendTestEvent(me, { id });
  assert.equal(state, 'delivered');
  const request = endpoint.requests.find(({ headers }) => headers['webhook-id'] === message_id);
  assert.ok(request);
  const verify = (secret: string) =>
    new Reference(secret).verify(request.body, request.headers as Record<string, string>);
  for (const secret of valid) verify(secret);
  for (const secret of invalid) assert.throws(() => verify(secret));
}

const post = (path: string, key: string, body: object) =>
  me.send('POST', path, { 'idempotency-key': key, 'content-type': 'application/json' }, JSON.stringify(body));

describe('secrets of webhooks', () => {
  let webhook: Required<Webhook>;
  /** From old to new. */
  const secrets: string[] = [];
  const create = async (key: string, path = 'first') =>
    (await post('/webhooks/', key, { url: `${endpoint.url}/${path}`, events: ['job.ended'] }))
      .body as Required<Webhook> & {
      code?: string;
    };
  const rotate = async (key: string) =>
    (await post(`/webhooks/${webhook.id}/secret/`, key, {})).body as { secret: string; code?: string };
  const [first, second, third] = [0, 1, 2].map((index) => () => secrets[index] ?? '') as [
    () => string,
    () => string,
    () => string,
  ];

  test('are not in the database, and are the same after a restart', async () => {
    webhook = await create('create');
    secrets.push(webhook.secret);
    assert.match(first(), /^whsec_[A-Za-z0-9+/]{43}=$/);
    const rows = [
      ...(await queryDatabase<object>(server.data, 'select * from webhooks', [])),
      ...(await queryDatabase<object>(server.data, 'select * from idempotency', [])),
    ];
    assert.equal(rows.length, 2);
    assert.doesNotMatch(JSON.stringify(rows), /whsec/);
    await assertSigned(webhook, [first()]);
    await restart(() => {});
    await assertSigned(webhook, [first()]);
  });

  test('are those of one webhook', async () => {
    const other = await create('other', 'other');
    await assertSigned(other, [other.secret], [first()]);
  });

  test('are replaced: the former one signs for another day, and a repeated request gets its own if that is valid', async () => {
    secrets.push((await rotate('r1')).secret);
    assert.equal((await rotate('r1')).secret, second());
    assert.equal((await create('create')).secret, first());
    await assertSigned(webhook, [first(), second()]);
    secrets.push((await rotate('r2')).secret);
    assert.equal(new Set(secrets).size, 3);
    assert.equal((await rotate('r1')).secret, second(), 'the former secret');
    assert.equal((await create('create')).code, 'conflict');
    await assertSigned(webhook, [second(), third()], [first()]);
    await queryDatabase(server.data, 'update webhooks set former_until = 1 where id = ?', [webhook.id]);
    await assertSigned(webhook, [third()], [second()]);
    assert.equal((await rotate('r1')).code, 'conflict');
  });

  test('of another key: deliveries wait, without being counted, until the key is back or the secret is replaced', async () => {
    const away = `${keyFile()}.away`;
    await restart(() => renameSync(keyFile(), away));
    assert.notEqual(readFileSync(keyFile(), 'utf8'), readFileSync(away, 'utf8'), 'the start creates a key');
    const { body: delivery } = await sendJson<Delivery>(me, 'POST', `/webhooks/${webhook.id}/test/`);
    const isWaiting = async () => /of another key, its deliveries wait/.test(server.log()) || undefined;
    await until('the delivery waits', isWaiting);
    const path = `/webhooks/${webhook.id}/deliveries/${delivery.id}/`;
    await until('the attempt is not counted', async () => (await me.get<Delivery>(path)).body.tries === 0 || undefined);
    const { active, failing_since } = await getWebhook(me, webhook);
    assert.deepEqual([active, failing_since], [true, null]);
    assert.equal((await rotate('r2')).code, 'conflict');

    const resume = () => queryDatabase(server.data, 'update webhooks set pause_until = 0', []);
    await restart(() => {
      rmSync(keyFile());
      renameSync(away, keyFile());
    });
    await resume();
    assert.equal((await waitForDelivery(me, webhook, delivery)).state, 'delivered');
    await assertSigned(webhook, [third()]);

    await restart(() => rmSync(keyFile()));
    const { body: other } = await sendJson<Delivery>(me, 'POST', `/webhooks/${webhook.id}/test/`);
    await until('the delivery waits', isWaiting);
    const { secret } = await rotate('r3');
    await resume();
    const { state, tries } = await waitForDelivery(me, webhook, other);
    assert.deepEqual([state, tries], ['delivered', 1]);
    await assertSigned(webhook, [secret], [third()]);
  });
});
