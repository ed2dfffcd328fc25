import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import { Webhook as Reference } from 'standardwebhooks';
import { keyIdOf } from '../../../src/secrets/cipher.ts';
import { keyFolder } from '../../../src/secrets/keyring.ts';
import { type Caller, createCaller } from '../../support/api.ts';
import { databaseSettings, postgresTest, queryDatabase } from '../../support/database.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../../support/webhook-endpoint.ts';
import {
  type Delivery,
  getWebhook,
  registerWebhook,
  sendJson,
  sendTestEvent,
  type Webhook,
  waitForDelivery,
  webhookConfig,
} from '../../support/webhooks.ts';

let server: TestServer;
let endpoint: TestEndpoint;
let me: Caller;
let userToken: string;
const config = webhookConfig();

before(async () => {
  endpoint = await startEndpoint();
  server = await startServer({ config });
  userToken = server.userToken;
  me = createCaller(server.url, userToken);
});
after(async () => {
  await server.dispose();
  await endpoint.close();
});

async function restart(change: () => Promise<void> | void): Promise<void> {
  await server.stop();
  await change();
  server = await startServer({ config, data: server.data });
  me = createCaller(server.url, userToken);
}

interface Row {
  secret: string;
  former_secret: string | null;
  key: string | null;
}
async function storedSecrets({ id }: Pick<Webhook, 'id'>): Promise<Row> {
  const [row] = await queryDatabase<Row>(server.data, 'select secret, former_secret from webhooks where id = ?', [id]);
  assert.ok(row);
  return { ...row, key: keyIdOf(row.secret) };
}
const setSecret = ({ id }: Pick<Webhook, 'id'>, secret: string) =>
  queryDatabase(server.data, 'update webhooks set secret = ?, pause_until = 0 where id = ?', [secret, id]);

/** Sends a test event, and checks that it is signed with the secret. */
async function assertSigned({ id, secret }: Required<Webhook>): Promise<void> {
  const { state, message_id } = await sendTestEvent(me, { id });
  assert.equal(state, 'delivered');
  const request = endpoint.requests.find(({ headers }) => headers['webhook-id'] === message_id);
  assert.ok(request);
  new Reference(secret).verify(request.body, request.headers as Record<string, string>);
}

/**
 * Whether a file of the data folder has this text. (On PostgreSQL the database is elsewhere.) Another process reads the files:
 * closing a file of SQLite here would drop the locks of the server.
 */
function isInFiles(text: string): boolean {
  const { status } = spawnSync('grep', ['-rqF', '-e', text, server.data]);
  assert.ok(status === 0 || status === 1);
  return status === 0;
}

const post = (path: string, key: string, body: object) =>
  me.send('POST', path, { 'idempotency-key': key, 'content-type': 'application/json' }, JSON.stringify(body));

describe('secrets of webhooks', () => {
  let webhook: Required<Webhook>;
  const request = () => ({ url: `${endpoint.url}/first`, events: ['job.ended'] });

  test('are encrypted in the database, and sign as before', async () => {
    webhook = (await post('/webhooks/', 'create', request())).body as Required<Webhook>;
    assert.match(webhook.secret, /^whsec_/);
    assert.ok((await storedSecrets(webhook)).key);
    assert.ok(!isInFiles(webhook.secret));
    await assertSigned(webhook);
  });

  test('are in no stored response; a repeated request gets its own secret as long as it is valid', async () => {
    const rotate = async (key: string) =>
      (await post(`/webhooks/${webhook.id}/secret/`, key, {})).body as { secret: string; code?: string };
    const second = await rotate('r1');
    assert.deepEqual(await rotate('r1'), second);
    assert.equal(((await post('/webhooks/', 'create', request())).body as Required<Webhook>).secret, webhook.secret);
    const third = await rotate('r2');
    assert.deepEqual(await rotate('r1'), second, 'the former secret');
    assert.equal(((await post('/webhooks/', 'create', request())).body as { code: string }).code, 'conflict');
    const rows = await queryDatabase<object>(server.data, 'select key from idempotency where response like ?', [
      '%whsec%',
    ]);
    assert.deepEqual(rows, []);
    webhook = { ...webhook, secret: third.secret };
    await assertSigned(webhook);
  });

  test('get a new key by "secrets rotate" while the server runs', async () => {
    const before = await storedSecrets(webhook);
    const { stdout } = await server.bursar('secrets', 'rotate');
    const stored = await storedSecrets(webhook);
    assert.notEqual(stored.key, before.key);
    assert.ok(stdout.includes(`${stored.key}`), stdout);
    assert.equal(keyIdOf(stored.former_secret ?? ''), stored.key);
    await assertSigned(webhook);
    const other = await registerWebhook(me, `${endpoint.url}/other`, ['job.ended']);
    assert.equal((await storedSecrets(other)).key, stored.key, 'the server encrypts with the new key');
    const status = JSON.parse((await server.bursar('secrets', 'status', '--json')).stdout);
    assert.deepEqual(status, [
      { key: before.key, from: 'data folder', encrypts: false, secrets: 0, unreadable: 0 },
      { key: stored.key, from: 'data folder', encrypts: true, secrets: 3, unreadable: 0 },
    ]);
  });

  test('cannot be swapped: the deliveries wait, without being counted, until the right secret is back', async () => {
    const other = await registerWebhook(me, `${endpoint.url}/swapped`, ['job.ended']);
    const [mine, others] = [await storedSecrets(webhook), await storedSecrets(other)];
    await setSecret(other, mine.secret);
    const { body: delivery } = await sendJson<Delivery>(me, 'POST', `/webhooks/${other.id}/test/`);
    await until(
      'the delivery waits',
      async () => /cannot be decrypted, its deliveries wait/.test(server.log()) || undefined,
    );
    const path = `/webhooks/${other.id}/deliveries/${delivery.id}/`;
    await until('the attempt is not counted', async () => (await me.get<Delivery>(path)).body.tries === 0 || undefined);
    const { active, failing_since } = await getWebhook(me, other);
    assert.deepEqual([active, failing_since], [true, null]);
    await setSecret(other, others.secret);
    const delivered = await waitForDelivery(me, other, delivery);
    assert.deepEqual([delivered.state, delivered.tries], ['delivered', 1]);
  });

  test('without their key are reported at the start, and their deliveries wait until the key is back', async () => {
    const folder = keyFolder(server.data);
    await restart(() => renameSync(folder, `${folder}.away`));
    assert.match(server.log(), /webhook secrets cannot be decrypted.*/);
    assert.match(server.log(), /is missing\. Put it back/);
    await assert.rejects(server.bursar('secrets', 'status'), ({ stdout }) => /missing/.test(stdout));
    const { key } = await storedSecrets(webhook);
    mkdirSync(folder);
    writeFileSync(join(folder, `${key}.key`), `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
    await assert.rejects(server.bursar('secrets', 'status', '--json'), ({ stdout }) => {
      const status = (JSON.parse(stdout) as { key: string; secrets: number; unreadable: number }[]).find(
        (each) => each.key === key,
      );
      return status !== undefined && status.secrets > 0 && status.unreadable === status.secrets;
    });
    rmSync(folder, { recursive: true });
    const { body: delivery } = await sendJson<Delivery>(me, 'POST', `/webhooks/${webhook.id}/test/`);
    await until('the delivery waits', async () => /its deliveries wait/.test(server.log()) || undefined);
    assert.equal((await getWebhook(me, webhook)).active, true);
    renameSync(`${folder}.away`, folder);
    await setSecret(webhook, (await storedSecrets(webhook)).secret);
    assert.equal((await waitForDelivery(me, webhook, delivery)).state, 'delivered');
  });
});

postgresTest('while an instance of an older version runs, secrets stay as it can read them', async () => {
  const old = new pg.Client({
    connectionString: databaseSettings(server.data).url,
    application_name: 'bursar old.host 1',
  });
  await old.connect();
  const webhook = await registerWebhook(me, `${endpoint.url}/rolling`, ['job.ended']);
  assert.equal((await storedSecrets(webhook)).secret, webhook.secret);
  await assertSigned(webhook);
  await assert.rejects(server.bursar('secrets', 'rotate'), /older version/);
  await restart(() => undefined);
  assert.equal((await storedSecrets(webhook)).secret, webhook.secret);
  await restart(() => old.end());
  assert.ok((await storedSecrets(webhook)).key);
  await assertSigned(webhook);
});
