import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createEventFeed, type EventFeed } from '../../../src/services/events/event-feed.ts';
import { createTopic } from '../../../src/services/events/publish.ts';
import { followEvents } from '../../../src/services/events/read-events.ts';
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

const many = 1000;

describe('those who wait for events', () => {
  const users = Array.from({ length: many }, (_, n) => String(306_000 + n));
  let books: TestDatabase;
  let feed: EventFeed;
  let queries = 0;

  before(async () => {
    books = await openTestDatabase([], 0, 0);
    await books.db
      .insertInto('users')
      .values(users.map((id) => ({ id, role: 'user' as const, created_at: 0 })))
      .execute();
    const watched = books.db.withPlugin({
      transformQuery: ({ node }) => {
        queries += 1;
        return node;
      },
      transformResult: async ({ result }) => result,
    });
    const counted: Db = Object.assign(watched, { backend: books.db.backend });
    const userTopic = createTopic('user');
    feed = createEventFeed({
      db: counted,
      userTopic,
      pollMs: 20,
      maxListenersPerUser: 10,
      log: { warn: () => undefined },
    });
  });
  after(async () => {
    await feed.stop();
    await books.close();
  });

  /** How many queries there are while so many listen, and nothing happens for a while. */
  async function queriesOf(listeners: number): Promise<number> {
    const over = new AbortController();
    const open = users.slice(0, listeners).map((userId) => feed.subscribe(userId, over.signal));
    const waiting = open.map((listener) => listener.waitForNext(0));
    const before = queries;
    await sleep(1000);
    const asked = queries - before;
    over.abort();
    await Promise.all(waiting);
    for (const listener of open) listener.close();
    return asked;
  }

  test('share one look into the books, however many they are, and there is none for nobody', async () => {
    const [forOne, forMany] = [await queriesOf(1), await queriesOf(many)];
    assert.ok(forOne > 0);
    assert.ok(forMany <= forOne * 1.5 + 2, `${forMany} queries for ${many} listeners, ${forOne} for one`);
    await sleep(50);
    const before = queries;
    await sleep(200);
    assert.equal(queries, before, 'nobody listens');
  });

  test('hear what another process has written, each their own', async () => {
    const over = new AbortController();
    const heard = new Map<string, number[]>();
    const following = users.map(async (userId) => {
      const own: number[] = [];
      heard.set(userId, own);
      const events = followEvents({ db: books.db, feed }, userId, 0, over.signal, async () => undefined);
      for await (const { id } of events) own.push(id);
    });
    const [chosen = ''] = users;
    for (let n = 1; n <= 3; n++) {
      // Nobody is told of it: this is not the process that they listen to.
      const event = { userId: chosen, job: null, kind: 'quota.threshold' as const, data: {}, at: n };
      await inTransaction(books.db, (tx) => insertEvent(tx, event));
      await until('it is heard', () => (heard.get(chosen)?.length === n ? true : undefined));
    }
    over.abort();
    await Promise.all(following);
    assert.deepEqual(heard.get(chosen), [1, 2, 3]);
    assert.ok(users.slice(1).every((userId) => heard.get(userId)?.length === 0));
  });
});

describe(`a server with ${many} idle listeners`, () => {
  let server: ServerProcess;
  const streams: EventStream[] = [];
  before(async () => {
    server = await spawnServer({ config: { ...shippedConfig(), events: { listenersPerUser: many } } });
  });
  after(async () => {
    for (const stream of streams) stream.disconnect();
    await server.dispose();
  });

  const memoryMb = () => {
    const text = readFileSync(`/proc/${server.process.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+) kB/.exec(text)?.[1]) / 1000;
  };
  /** Processor time so far, in clock ticks of a hundredth of a second. */
  const ticks = () => {
    const fields = readFileSync(`/proc/${server.process.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return Number(fields[11]) + Number(fields[12]);
  };
  /** The share of one processor that the server takes while nothing happens. */
  const idleShare = async () => {
    const [from, fromTicks] = [performance.now(), ticks()];
    await sleep(5000);
    return ((ticks() - fromTicks) * 10) / (performance.now() - from);
  };

  test('takes little more memory and time than one with none', async () => {
    const before = { memory: memoryMb(), share: await idleShare() };
    for (let n = 0; n < many; n += 50) {
      const opened = Array.from({ length: 50 }, () =>
        openEventStream(server.url, server.userToken, { path: '/events/?after=latest' }),
      );
      streams.push(...(await Promise.all(opened)));
    }
    assert.ok(streams.every(({ status }) => status === 200));
    await sleep(1000);
    const share = await idleShare();
    const each = ((memoryMb() - before.memory) * 1000) / many;
    console.log(
      `${each.toFixed(1)} KB for each listener; idle ${before.share.toFixed(4)} before, ${share.toFixed(4)} then`,
    );
    assert.ok(each < 150, `${each} KB for each`);
    assert.ok(share < before.share + 0.1, `${share} of a processor, ${before.share} without them`);
  });

  test('tells them all when something happens', async () => {
    const me = createCaller(server.url, server.userToken);
    await runThroughAllStages(server, me);
    for (const stream of streams) {
      const events = await stream.waitForEvents(4);
      assert.equal(events.map(({ id }) => id).join(), '1,2,3,4');
    }
  });
});
