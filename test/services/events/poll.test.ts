import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ApiResponse, Caller } from '../../support/api.ts';
import { loadOpenApiContract, type OpenApiContract } from '../../support/contract.ts';
import type { PublicEvent } from '../../support/event-stream.ts';
import { runThroughAllStages, submitShellLine } from '../../support/jobs.ts';
import { readMetric } from '../../support/metrics.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

// GET /events/ as JSON, with long polling.

interface Page {
  events: PublicEvent[];
  next: number;
}

let server: TestServer;
let contract: OpenApiContract;
let me: Caller;

before(async () => {
  server = await startServer();
  contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
});
after(() => server.dispose());

const getEvents = async (query = '', caller = me) =>
  (await caller.send('GET', `/events/${query}`, { accept: 'application/json' })) as ApiResponse<Page>;

describe('a page of events', () => {
  test('is empty without events, and returns the position to continue from', async () => {
    const { status, body, headers } = await getEvents();
    assert.deepEqual([status, body], [200, { events: [], next: 0 }]);
    assert.equal(headers.get('cache-control'), 'no-store');
  });

  test('matches its schema', async () => {
    await runThroughAllStages(server, me);
    await runThroughAllStages(server, me, 'exit 1', { path: '/jobs/hpc_two/' });
    const { body } = await getEvents();
    assert.equal(body.events.length, 8);
    assert.equal(body.next, 8);
    assert.ok(contract.checkedResponses.has('GET /events/ 200'));
  });

  test('has at most `limit` events, and the next page continues after the last one', async () => {
    const seen: number[] = [];
    let next = 0;
    for (let page = 0; page < 4; page++) {
      const { body } = await getEvents(`?limit=3&after=${next}`);
      seen.push(...body.events.map(({ id }) => id));
      next = body.next;
    }
    assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert.equal(next, 8);
  });

  test('is returned as JSON for the parameters `wait` and `limit`, without an Accept header', async () => {
    for (const query of ['?wait=0', '?limit=1', '?wait=0.0571']) {
      const { status, headers } = await me.send('GET', `/events/${query}`);
      assert.deepEqual([status, headers.get('content-type')], [200, 'application/json'], query);
    }
  });

  test('is rejected with 400 for an invalid query', async () => {
    for (const query of ['?limit=0', '?limit=1001', '?limit=x', '?wait=-1', '?wait=61', '?after=-1', '?after=9']) {
      const { status } = await getEvents(query);
      assert.equal(status, 400, query);
    }
  });
});

describe('long polling', () => {
  test('returns when an event occurs', async () => {
    const { next } = (await getEvents('?after=latest')).body;
    const waiting = getEvents(`?after=${next}&wait=60`);
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', 'true');
    const { body } = await waiting;
    assert.deepEqual([body.events[0]?.type, body.events[0]?.job?.job_id], ['job.accepted', job.job_id]);
    await me.waitUntilFinished(job);
  });

  test('returns no events and the same position after the timeout', async () => {
    const { next } = (await getEvents('?after=latest')).body;
    const { body } = await getEvents(`?after=${next}&wait=0.2`);
    assert.deepEqual(body, { events: [], next });
  });

  test('ignores events of other users', async () => {
    const other = contract.callerFor(await server.token('303201'));
    const { next } = (await getEvents('?after=latest')).body;
    const waiting = getEvents(`?after=${next}&wait=2`);
    await runThroughAllStages(server, other);
    assert.deepEqual((await waiting).body, { events: [], next });
    assert.equal((await getEvents('', other)).body.events.length, 4);
  });

  test('returns at once when the server stops', async () => {
    const { next } = (await getEvents('?after=latest')).body;
    const waiting = getEvents(`?after=${next}&wait=60`);
    const listeners = () => readMetric(server.url, 'bursar_open_requests{kind="event_listener"}');
    await until('the request has arrived', async () => (await listeners()) === 1 || undefined);
    await server.stop();
    assert.deepEqual((await waiting).body, { events: [], next });
  });
});
