import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ApiResponse, Caller } from '../../support/api.ts';
import { loadOpenApiContract, type OpenApiContract } from '../../support/contract.ts';
import type { PublicEvent } from '../../support/event-stream.ts';
import { runThroughAllStages, submitShellLine } from '../../support/jobs.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';

// GET /events/ as JSON, with long polling.

interface Page {
  events: PublicEvent[];
  next: number;
}

let server: ServerProcess;
let contract: OpenApiContract;
let me: Caller;

before(async () => {
  server = await spawnServer();
  contract = await loadOpenApiContract(server);
  me = contract.callerFor(server.userToken);
});
after(() => server.dispose());

const ask = async (query = '', caller = me) =>
  (await caller.send('GET', `/events/${query}`, { accept: 'application/json' })) as ApiResponse<Page>;

describe('a page of events', () => {
  test('is empty where nothing has happened, and says how to go on', async () => {
    const { status, body, headers } = await ask();
    assert.deepEqual([status, body], [200, { events: [], next: 0 }]);
    assert.equal(headers.get('cache-control'), 'no-store');
  });

  test('is valid by its schema, as every event in it is', async () => {
    await runThroughAllStages(server, me);
    await runThroughAllStages(server, me, 'exit 1', { path: '/jobs/hpc_two/' });
    const { body } = await ask();
    assert.equal(body.events.length, 8);
    assert.equal(body.next, 8);
    assert.ok(contract.checkedResponses.has('GET /events/ 200'));
  });

  test('holds as many as asked for, and the next one goes on where it ended', async () => {
    const seen: number[] = [];
    let next = 0;
    for (let page = 0; page < 4; page++) {
      const { body } = await ask(`?limit=3&after=${next}`);
      seen.push(...body.events.map(({ id }) => id));
      next = body.next;
    }
    assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert.equal(next, 8);
  });

  test('is given for asking to wait or for a limit, too', async () => {
    for (const query of ['?wait=0', '?limit=1', '?wait=0.0571']) {
      const { status, headers } = await me.send('GET', `/events/${query}`);
      assert.deepEqual([status, headers.get('content-type')], [200, 'application/json'], query);
    }
  });

  test('is refused where the query is not acceptable', async () => {
    for (const query of ['?limit=0', '?limit=1001', '?limit=x', '?wait=-1', '?wait=61', '?after=-1', '?after=9']) {
      const { status } = await ask(query);
      assert.equal(status, 400, query);
    }
  });
});

describe('waiting for events', () => {
  test('ends with what happens', async () => {
    const { next } = (await ask('?after=latest')).body;
    const waiting = ask(`?after=${next}&wait=60`);
    const { body: job } = await submitShellLine(me, '/jobs/hpc_one/', 'true');
    const { body } = await waiting;
    assert.deepEqual([body.events[0]?.type, body.events[0]?.job?.job_id], ['job.accepted', job.job_id]);
    await me.waitUntilFinished(job);
  });

  test('ends with nothing when nothing happens, and the place to go on is the same', async () => {
    const { next } = (await ask('?after=latest')).body;
    const { body } = await ask(`?after=${next}&wait=0.2`);
    assert.deepEqual(body, { events: [], next });
  });

  test('is not ended by what happens to others', async () => {
    const other = contract.callerFor(await server.token('303201'));
    const { next } = (await ask('?after=latest')).body;
    const waiting = ask(`?after=${next}&wait=2`);
    await runThroughAllStages(server, other);
    assert.deepEqual((await waiting).body, { events: [], next });
    assert.equal((await ask('', other)).body.events.length, 4);
  });

  test('ends at once when the server stops', async () => {
    const { next } = (await ask('?after=latest')).body;
    const waiting = ask(`?after=${next}&wait=60`);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(await server.stop(), 0);
    assert.deepEqual((await waiting).body, { events: [], next });
  });
});
