import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createEventFeed, type EventFeed } from '../../../src/services/events/event-feed.ts';
import { followEvents } from '../../../src/services/events/read-events.ts';
import { createTopic } from '../../../src/services/events/topic.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { insertEvent } from '../../../src/store/events/events.ts';
import { createCaller } from '../../support/api.ts';
import { type EventStream, openEventStream } from '../../support/event-stream.ts';
import { runThroughAllStages } from '../../support/jobs.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';
import { until } from '../../support/until.ts';

const listenerCount = 1000;

describe('the event feed', () => {
  const users = Array.from({ length: listenerCount }, (_, n) => String(306_000 + n));
  let database: TestDatabase;
  let feed: EventFeed;
  let queries = 0;

  before(async () => {
    database = await openTestDatabase([], 0, 0);
    await database.db
      .insertInto('users')
      .values(users.map((id) => ({ id, role: 'user' as const, created_at: 0 })))
      .execute();
    const counting = database.db.withPlugin({
      transformQuery: ({ node }) => {
        queries += 1;
        return node;
      },
      transformResult: async ({ result }) => result,
    });
    const countingDb: Db = Object.assign(counting, { backend: database.db.backend });
    const userTopic = createTopic('user');
    feed = createEventFeed({
      db: countingDb,
      userTopic,
      pollMs: 20,
      log: { warn: () => undefined },
    });
  });
  after(async () => {
    await feed.stop();
    await database.close();
  });

  /** Counts the queries of one second without events, with a number of listeners. */
  async function countQueries(listeners: number): Promise<number> {
    const abort = new AbortController();
    const openListeners = users.slice(0, listeners).map((userId) => feed.subscribe(userId, abort.signal));
    const waiting = openListeners.map((listener) => listener.waitForNext(0));
    const before = queries;
    await sleep(1000);
    const count = queries - before;
    abort.abort();
    await Promise.all(waiting);
    for (const listener of openListeners) listener.close();
    return count;
  }

  test('polls the database with one query for all listeners, and not at all without listeners', async () => {
    const [withOne, withMany] = [await countQueries(1), await countQueries(listenerCount)];
    assert.ok(withOne > 0);
    assert.ok(
      withMany <= withOne * 1.5 + 2,
      `${withMany} queries with ${listenerCount} listeners, ${withOne} with one`,
    );
    await sleep(50);
    const before = queries;
    await sleep(200);
    assert.equal(queries, before, 'no queries without listeners');
  });

  test('finds an event of another process for a listener although another listener of the user has seen it', async () => {
    const [, userId = ''] = users;
    const abort = new AbortController();
    const [behind, ahead] = [feed.subscribe(userId, abort.signal), feed.subscribe(userId, abort.signal)];
    const seen = ahead.waitForNext(1);
    let isNotified = false;
    const waiting = behind.waitForNext(0).then(() => {
      isNotified = true;
    });
    const event = { userId, job: null, kind: 'quota.threshold' as const, data: {}, at: 1 };
    await inTransaction(database.db, (tx) => insertEvent(tx, event));
    await until('the listener that is behind is notified', () => isNotified || undefined).finally(() => abort.abort());
    await Promise.all([waiting, seen]);
    behind.close();
    ahead.close();
  });

  test('delivers events that another process has written, to their user only', async () => {
    const abort = new AbortController();
    const received = new Map<string, number[]>();
    const following = users.map(async (userId) => {
      const ids: number[] = [];
      received.set(userId, ids);
      const events = followEvents({ db: database.db, feed }, userId, 0, abort.signal, async () => undefined);
      for await (const { id } of events) ids.push(id);
    });
    const [receiver = ''] = users;
    for (let n = 1; n <= 3; n++) {
      // Not published in this process, as if another process had written the event.
      const event = { userId: receiver, job: null, kind: 'quota.threshold' as const, data: {}, at: n };
      await inTransaction(database.db, (tx) => insertEvent(tx, event));
      await until('the event is received', () => (received.get(receiver)?.length === n ? true : undefined));
    }
    abort.abort();
    await Promise.all(following);
    assert.deepEqual(received.get(receiver), [1, 2, 3]);
    assert.ok(users.slice(2).every((userId) => received.get(userId)?.length === 0));
  });
});

describe(`a server with ${listenerCount} idle listeners`, () => {
  let server: ServerProcess;
  const streams: EventStream[] = [];
  before(async () => {
    server = await spawnServer({ config: { ...shippedConfig(), events: { listenersPerUser: listenerCount } } });
  });
  after(async () => {
    for (const stream of streams) stream.disconnect();
    await server.dispose();
  });

  const memoryMb = () => {
    const text = readFileSync(`/proc/${server.process.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+) kB/.exec(text)?.[1]) / 1000;
  };
  /** Returns the CPU time of the server so far, in clock ticks of 10 ms. */
  const cpuTicks = () => {
    const fields = readFileSync(`/proc/${server.process.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return Number(fields[11]) + Number(fields[12]);
  };
  /** Measures the share of one CPU that the idle server uses. */
  const measureIdleCpu = async () => {
    const [startedAt, startTicks] = [performance.now(), cpuTicks()];
    await sleep(5000);
    return ((cpuTicks() - startTicks) * 10) / (performance.now() - startedAt);
  };

  test('uses little more memory and CPU time than without listeners', async () => {
    const before = { memory: memoryMb(), cpu: await measureIdleCpu() };
    for (let n = 0; n < listenerCount; n += 50) {
      const opened = Array.from({ length: 50 }, () =>
        openEventStream(server.url, server.userToken, { path: '/events/?after=latest' }),
      );
      streams.push(...(await Promise.all(opened)));
    }
    assert.ok(streams.every(({ status }) => status === 200));
    await sleep(1000);
    const cpu = await measureIdleCpu();
    const kbPerListener = ((memoryMb() - before.memory) * 1000) / listenerCount;
    console.log(
      `${kbPerListener.toFixed(1)} KB per listener; idle CPU ${before.cpu.toFixed(4)} without, ${cpu.toFixed(4)} with listeners`,
    );
    assert.ok(kbPerListener < 150, `${kbPerListener} KB per listener`);
    assert.ok(cpu < before.cpu + 0.1, `${cpu} of a CPU, ${before.cpu} without listeners`);
  });

  test('sends new events to all of them', async () => {
    const me = createCaller(server.url, server.userToken);
    await runThroughAllStages(server, me);
    for (const stream of streams) {
      const events = await stream.waitForEvents(4);
      assert.equal(events.map(({ id }) => id).join(), '1,2,3,4');
    }
  });
});
