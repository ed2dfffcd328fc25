import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createEventFeed, createTopic, type EventFeed } from '../../../../src/services/events/event-feed.ts';
import { followEvents } from '../../../../src/services/events/read-events.ts';
import type { Db } from '../../../../src/store/database/handle.ts';
import { inTransaction } from '../../../../src/store/database/transaction.ts';
import { insertEvent } from '../../../../src/store/events/events.ts';
import { createCaller } from '../../../support/api.ts';
import { type EventStream, openEventStreams } from '../../../support/event-stream.ts';
import { runThroughAllStages } from '../../../support/jobs.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';
import { shippedConfig } from '../../../support/shipped-config.ts';
import { openTestDatabase, type TestDatabase } from '../../../support/test-database.ts';
import { until } from '../../../support/until.ts';

const listenerCount = 1000;
const pollMs = 20;

describe('the event feed', () => {
  const users = Array.from({ length: listenerCount }, (_, n) => String(306_000 + n));
  let database: TestDatabase;
  let feed: EventFeed;
  let queries = 0;

  before(async () => {
    database = await openTestDatabase([], 0, 0);
    await database.db
      .insertInto('users')
      .values(users.map((id) => ({ id, role: 'user' as const, createdAt: 0 })))
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
      pollMs,
      log: { warn: () => undefined },
    });
  });
  after(async () => {
    await feed.stop();
    await database.close();
  });

  test('polls the database with one query for all listeners, and not at all without listeners', async () => {
    const abort = new AbortController();
    const listeners = users.map((userId) => feed.subscribe(userId, abort.signal));
    const waiting = listeners.map((listener) => listener.waitForNext(0));
    const startedAt = performance.now();
    const before = queries;
    await until('several polls', () => queries - before >= 5 || undefined);
    // A busy machine polls less often than every `pollMs`, never more often.
    const polls = (performance.now() - startedAt) / pollMs;
    const count = queries - before;
    assert.ok(count <= polls * 1.5 + 1, `${count} queries in ${polls} polls with ${listenerCount} listeners`);
    abort.abort();
    await Promise.all(waiting);
    for (const listener of listeners) listener.close();
    // The last poll may be under way.
    await until('no queries without listeners', async () => {
      const former = queries;
      await sleep(10 * pollMs);
      return queries === former || undefined;
    });
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
      const reading = { userId, after: 0, signal: abort.signal, checkAccess: async () => undefined };
      const events = followEvents({ db: database.db, eventFeed: feed }, reading);
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

// test/long/services/events/idle-listeners.test.ts measures what they take.
describe(`a server with ${listenerCount} idle listeners`, () => {
  let server: ServerProcess;
  let streams: EventStream[] = [];
  before(async () => {
    server = await spawnServer({ config: { ...shippedConfig(), limits: { eventListeners: listenerCount } } });
    streams = await openEventStreams(listenerCount, server.url, server.userToken, { path: '/events/?after=latest' });
  });
  after(async () => {
    for (const stream of streams) stream.disconnect();
    await server.dispose();
  });

  test('sends new events to all of them', async () => {
    assert.ok(streams.every(({ status }) => status === 200));
    const me = createCaller(server.url, server.userToken);
    await runThroughAllStages(server, me);
    for (const stream of streams) {
      const events = await stream.waitForEvents(4);
      assert.equal(events.map(({ id }) => id).join(), '1,2,3,4');
    }
  });
});
