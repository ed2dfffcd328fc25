import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, createCaller } from '../../support/api.ts';
import { type EventStream, openEventStream } from '../../support/event-stream.ts';
import { jobPath, releaseJob, submitShellLine, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { sendJson } from '../../support/webhooks.ts';

// Streams, long polls and followed logs end when their caller loses access.

/** No heartbeat and no poll comes during a test: only hints, and the expiry of a token, can end a stream. */
const tuning = { heartbeatIntervalMs: 3_600_000, eventIntervalMs: 3_600_000 };
const reason = { reason: 'because of a test' };
let server: TestServer;
let admin: Caller;

before(async () => {
  server = await startServer({ tuning });
  admin = createCaller(server.url, server.adminToken);
});
after(() => server.dispose());

/** Opens a stream of each kind that a user can keep open. The result resolves when they have ended, without an end event. */
async function openAll(token: string) {
  const me = createCaller(server.url, token);
  const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', waitForGoScript);
  // No event of the job may end the long poll.
  await waitForStage(me, job, 'RUNNING');
  const path = `${jobPath(job)}log/?follow=1`;
  const streams = [
    await openEventStream(server.url, token, { path: '/events/?after=latest' }),
    await openEventStream(server.url, token, { path }),
  ];
  const text = await fetch(server.url + path, { headers: { authorization: `Bearer ${token}` } });
  const longPoll = me.send('GET', '/events/?after=latest&wait=60', { accept: 'application/json' });
  return async () => {
    await Promise.all(streams.map(({ closed }) => closed));
    assert.ok(streams.every((stream) => !stream.text().includes('event: end')));
    await assert.rejects(text.text(), 'a followed log that is cut off must not look complete');
    const { status } = await longPoll;
    releaseJob(server, job);
    return status;
  };
}

const isOpen = (stream: EventStream) => Promise.race([stream.closed.then(() => false), sleep(50, true)]);

describe('open streams end at once', () => {
  test('when their token is revoked; those of other tokens stay open', async () => {
    const token = await server.token('303101', { name: 'to be revoked' });
    const waitForEnd = await openAll(token);
    const other = await openEventStream(server.url, await server.token('303101', { name: 'stays' }));
    const me = createCaller(server.url, token);
    const { body } = await me.get<{ id: number; name: string }[]>('/me/tokens/');
    const id = body.find(({ name }) => name === 'to be revoked')?.id;
    assert.equal((await me.send('DELETE', `/me/tokens/${id}/`)).status, 200);
    assert.equal(await waitForEnd(), 401);
    assert.ok(await isOpen(other));
    other.disconnect();
  });

  test('when their user is disabled', async () => {
    const token = await server.token('303102');
    const waitForEnd = await openAll(token);
    assert.equal((await sendJson(admin, 'POST', '/admin/users/303102/disable/', reason)).status, 200);
    assert.equal(await waitForEnd(), 403);
  });

  test('when the role of their user changes, also those about another user', async () => {
    const token = await server.token('303103', { role: 'auditor' });
    const stream = await openEventStream(server.url, token, { path: '/admin/events/301330/' });
    const owner = await openEventStream(server.url, server.userToken);
    const { status } = await sendJson(admin, 'PUT', '/admin/users/303103/role/', { role: 'user', ...reason });
    assert.equal(status, 200);
    await stream.closed;
    assert.ok(await isOpen(owner));
    owner.disconnect();
  });

  test('when their token expires', async () => {
    // A token can expire before the stream is open.
    let validMs = 500;
    const stream = await until('a stream is open', async () => {
      validMs *= 2;
      const opened = await openEventStream(server.url, await server.token('303104', { validMs }));
      if (opened.status === 200) return opened;
      assert.equal(opened.status, 401);
      return undefined;
    });
    await stream.closed;
  });
});

test('a change by another process ends streams at the next heartbeat', async (t) => {
  const busy = await startServer({ tuning: { ...tuning, heartbeatIntervalMs: 200 } });
  t.after(() => busy.dispose());
  const stream = await openEventStream(busy.url, busy.userToken);
  const other = await openEventStream(busy.url, busy.adminToken);
  await busy.bursar('user', 'disable', '301330', '--reason', 'because of a test');
  await stream.closed;
  assert.ok(await isOpen(other));
  other.disconnect();
});
