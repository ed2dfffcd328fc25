import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { leaseDelivery, listDeliveryQueues, recordAttempt } from '../../../src/store/events/delivery-queue.ts';
import { getEventRange, insertEvent, insertEvents, listEventsAfter } from '../../../src/store/events/events.ts';
import { disableWebhook, incrementWebhookCount, insertWebhook } from '../../../src/store/events/webhooks.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

// Events are numbered in the order of their commits, and deliveries are one sender's at a time: on both databases.

const [me, mate, other] = ['305001', '305002', '305003'] as const;
let books: TestDatabase;

before(async () => {
  books = await openTestDatabase([me, mate, other], 1000, 1000);
});
after(() => books.close());

const event = (n: number) => ({ job: null, kind: 'quota.threshold', data: { n }, at: n }) as const;

describe('the numbers of events', () => {
  test('have no gaps, and are seen in their order, however many transactions write at once', async () => {
    let writing = true;
    const seen: number[] = [];
    const reading = (async () => {
      for (;;) {
        const last = !writing;
        const events = await listEventsAfter(books.db, me, seen.at(-1) ?? 0, 7);
        seen.push(...events.map(({ seq }) => seq));
        if (last && events.length === 0) return;
        await sleep(1);
      }
    })();
    await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        inTransaction(books.db, async (tx) => {
          await insertEvent(tx, { userId: me, ...event(n) });
          // Whoever came first may well commit last.
          if (n % 3 === 0) await sleep(Math.random() * 10);
          await insertEvents(tx, [mate, me], event(n));
        }),
      ),
    );
    writing = false;
    await reading;
    assert.deepEqual(
      seen,
      Array.from({ length: 120 }, (_, index) => index + 1),
    );
    assert.deepEqual(await getEventRange(books.db, mate), { last: 60, lastExpired: 0 });
    assert.deepEqual(await getEventRange(books.db, other), { last: 0, lastExpired: 0 });
  });

  test('are not used up by what is rolled back', async () => {
    const { last } = await getEventRange(books.db, other);
    const failing = inTransaction(books.db, async (tx) => {
      await insertEvent(tx, { userId: other, ...event(1) });
      throw new Error('no');
    });
    await assert.rejects(failing, /no/);
    await inTransaction(books.db, (tx) => insertEvent(tx, { userId: other, ...event(2) }));
    const events = await listEventsAfter(books.db, other, last, 10);
    assert.deepEqual(
      events.map(({ seq, data }) => [seq, data]),
      [[last + 1, '{"n":2}']],
    );
  });
});

describe('deliveries', () => {
  const lease = (owner: string, now: number) => ({ owner, now, until: now + 100 });
  const webhook = (userId: string, url: string, kinds: string[]) =>
    inTransaction(books.db, async (tx) => {
      assert.ok(await incrementWebhookCount(tx, userId, 10));
      return await insertWebhook(tx, { userId, url, description: '', kinds, secret: 'whsec_', createdAt: 1 });
    });

  test('are queued with their event, for the webhooks of its user that want it', async () => {
    const [all, some, none] = [
      await webhook(me, 'https://a.test/', ['*']),
      await webhook(me, 'https://b.test/', ['quota.threshold', 'job.ended']),
      await webhook(me, 'https://c.test/', ['job.ended']),
    ];
    const disabled = await webhook(me, 'https://d.test/', ['*']);
    assert.ok(all && some && none && disabled);
    await inTransaction(books.db, (tx) => disableWebhook(tx, disabled, 'for a test', 1));
    assert.equal(await webhook(me, 'https://a.test/', ['*']), undefined, 'one of each address');
    for (const n of [10, 11, 12]) await inTransaction(books.db, (tx) => insertEvents(tx, [me, mate], event(n)));
    const queues = await listDeliveryQueues(books.db);
    assert.deepEqual(
      queues.toSorted((a, b) => a.webhookId - b.webhookId),
      [all, some].map((webhookId) => ({ webhookId, readyAt: 10 })),
    );
  });

  test('are one sender’s at a time, the oldest first, and another’s when the lease has run out', async () => {
    const [first] = await listDeliveryQueues(books.db);
    assert.ok(first);
    const { webhookId } = first;
    const claims = await Promise.all(
      Array.from({ length: 10 }, (_, n) => leaseDelivery(books.db, webhookId, lease(`sender ${n}`, 1000))),
    );
    const [claim, ...more] = claims.filter((one) => one !== undefined);
    assert.ok(claim);
    assert.deepEqual(more, []);
    assert.equal(claim.event?.data, '{"n":10}');
    assert.equal(await leaseDelivery(books.db, webhookId, lease('late', 1099)), undefined);

    const second = await leaseDelivery(books.db, webhookId, lease('heir', 1100));
    assert.deepEqual([second?.id, second?.tries], [claim.id, 2]);
    const note = { status: 200, error: null, retryAt: null, now: 1101 };
    const owner = `sender ${claims.findIndex((one) => one !== undefined)}`;
    assert.equal(await record(claim.id, { ...note, leaseOwner: owner }), false, 'it is not theirs now');
    assert.equal(await record(claim.id, { ...note, leaseOwner: 'heir' }), true);
    const third = await leaseDelivery(books.db, webhookId, lease('heir', 1102));
    assert.equal(third?.event?.data, '{"n":11}');
  });

  test('that have to wait let the next one go first', async () => {
    const queue = (await listDeliveryQueues(books.db)).find(({ readyAt }) => readyAt === 10);
    assert.ok(queue);
    const first = await leaseDelivery(books.db, queue.webhookId, lease('me', 2000));
    assert.ok(first);
    const failed = { leaseOwner: 'me', status: 500, error: 'no', retryAt: 9000, now: 2001 };
    assert.ok(await record(first.id, failed));
    const second = await leaseDelivery(books.db, queue.webhookId, lease('me', 2002));
    assert.equal(second?.event?.data, '{"n":11}');
  });
});

const record = (id: number, attempt: Parameters<typeof recordAttempt>[2]) =>
  inTransaction(books.db, (tx) => recordAttempt(tx, id, attempt));
