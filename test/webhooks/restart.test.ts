import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Webhook as Reference } from 'standardwebhooks';
import { type Caller, callerOf, type Job } from '../support/api.ts';
import { submitLine } from '../support/jobs.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';
import { startEndpoint, type TestEndpoint } from '../support/webhook-endpoint.ts';
import { listDeliveries, registerWebhook, type Webhook, waitForDelivery, webhookConfig } from '../support/webhooks.ts';

// What is waiting to be delivered outlives the server.

describe('a server that is killed while it delivers', () => {
  const config = webhookConfig({ timeoutSeconds: 1, retrySeconds: Array(200).fill(0.2) });
  let server: ServerProcess;
  let to: TestEndpoint;
  let me: Caller;
  let token: string;
  let webhook: Required<Webhook>;
  const jobs: Job[] = [];

  before(async () => {
    to = await startEndpoint();
    server = await spawnServer({ config });
    token = server.userToken;
    me = callerOf(server.url, token);
    webhook = await registerWebhook(me, to.url);
  });
  after(async () => {
    await server.dispose();
    await to.close();
  });

  async function killAndStart(): Promise<void> {
    await server.kill();
    server = await spawnServer({ data: server.data, config });
    me = callerOf(server.url, token);
  }

  test('delivers it after the restart, under the same id and signed by the same secret', async () => {
    // Not answering: the attempt is under way when the server is killed.
    to.respondWith(() => null);
    const { body: job } = await submitLine(me, '/jobs/hpc_one/', 'true');
    jobs.push(job);
    await to.waitForRequests(1);
    await killAndStart();
    to.respondWith(() => ({ status: 200 }));
    const [first] = (await listDeliveries(me, webhook)).toReversed();
    assert.ok(first);
    const delivered = await waitForDelivery(me, webhook, first);
    assert.equal(delivered.state, 'delivered');
    assert.ok(delivered.tries >= 2, 'the attempt that was cut off counts');
    const ids = to.requests.filter(({ headers }) => headers['webhook-id'] === first.message_id);
    assert.ok(ids.length >= 2);
    for (const { body, headers } of ids) new Reference(webhook.secret).verify(body, headers as Record<string, string>);
    await me.finished(job);
  });

  test('goes on trying what had failed before, and loses nothing in three kills', async () => {
    to.respondWith(() => ({ status: 500 }));
    for (let kill = 0; kill < 3; kill++) {
      const count = to.requests.length;
      const { body: job } = await submitLine(me, '/jobs/hpc_one/', 'true');
      jobs.push(job);
      await me.finished(job);
      await to.waitForRequests(count + 1);
      await killAndStart();
    }
    to.respondWith(() => ({ status: 200 }));
    await until(
      'everything is delivered',
      async () => {
        const deliveries = await listDeliveries(me, webhook);
        return deliveries.every(({ state }) => state === 'delivered') ? true : undefined;
      },
      120,
    );
    const ends = to.events().filter(({ type }) => type === 'job.ended');
    const told = new Set(ends.map(({ job }) => job?.job_id));
    assert.deepEqual(
      told,
      new Set(jobs.map(({ job_id }) => job_id)),
      'the end of every job has arrived, whenever the server was killed',
    );
    const { body: page } = await me.send('GET', '/events/?limit=1000', { accept: 'application/json' });
    const events = (page as { events: { id: number }[] }).events;
    const arrived = new Set(to.events().map(({ id }) => id));
    assert.deepEqual(
      events.filter(({ id }) => !arrived.has(id)),
      [],
    );
  });
});
