import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Webhook as Reference } from 'standardwebhooks';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { submitShellLine } from '../../support/jobs.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../../support/webhook-endpoint.ts';
import {
  listDeliveries,
  registerWebhook,
  type Webhook,
  waitForDelivery,
  webhookConfig,
} from '../../support/webhooks.ts';

describe('webhook deliveries of a server that is killed', () => {
  // So many retries that no delivery fails for good, however long a start takes.
  const options = {
    config: webhookConfig(),
    tuning: { eventIntervalMs: 100, webhookTimeoutMs: 1000, webhookRetrySeconds: Array(5000).fill(0.2) },
  };
  let server: ServerProcess;
  let endpoint: TestEndpoint;
  let me: Caller;
  let token: string;
  let webhook: Required<Webhook>;
  const jobs: Job[] = [];

  before(async () => {
    endpoint = await startEndpoint();
    server = await spawnServer(options);
    token = server.userToken;
    me = createCaller(server.url, token);
    webhook = await registerWebhook(me, endpoint.url);
  });
  after(async () => {
    await server.dispose();
    await endpoint.close();
  });

  async function killAndStart(): Promise<void> {
    await server.kill();
    server = await spawnServer({ data: server.data, ...options });
    me = createCaller(server.url, token);
  }

  test('are repeated after the restart, with the same message id and secret', async () => {
    // The endpoint does not answer, so the attempt is in progress when the server is killed.
    endpoint.respondWith(() => null);
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', 'true');
    jobs.push(job);
    await endpoint.waitForRequests(1);
    await killAndStart();
    endpoint.respondWith(() => ({ status: 200 }));
    const [first] = (await listDeliveries(me, webhook)).toReversed();
    assert.ok(first);
    const delivered = await waitForDelivery(me, webhook, first);
    assert.equal(delivered.state, 'delivered');
    assert.ok(delivered.tries >= 2, 'the interrupted attempt counts');
    const attempts = endpoint.requests.filter(({ headers }) => headers['webhook-id'] === first.message_id);
    assert.ok(attempts.length >= 2);
    for (const { body, headers } of attempts)
      new Reference(webhook.secret).verify(body, headers as Record<string, string>);
    await me.waitUntilFinished(job);
  });

  test('are retried after earlier failures, and none is lost in three kills', async () => {
    endpoint.respondWith(() => ({ status: 500 }));
    for (let kill = 0; kill < 3; kill++) {
      const count = endpoint.requests.length;
      const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', 'true');
      jobs.push(job);
      await me.waitUntilFinished(job);
      await endpoint.waitForRequests(count + 1);
      await killAndStart();
    }
    endpoint.respondWith(() => ({ status: 200 }));
    await until(
      'everything is delivered',
      async () => {
        const deliveries = await listDeliveries(me, webhook);
        return deliveries.every(({ state }) => state === 'delivered') ? true : undefined;
      },
      120,
    );
    const endEvents = endpoint.events().filter(({ type }) => type === 'job.ended');
    const jobIds = new Set(endEvents.map(({ job }) => job?.job_id));
    assert.deepEqual(jobIds, new Set(jobs.map(({ job_id }) => job_id)), 'the end of every job was delivered');
    const { body: page } = await me.send('GET', '/events/?limit=1000', { accept: 'application/json' });
    const events = (page as { events: { id: number }[] }).events;
    const deliveredIds = new Set(endpoint.events().map(({ id }) => id));
    assert.deepEqual(
      events.filter(({ id }) => !deliveredIds.has(id)),
      [],
    );
  });
});
