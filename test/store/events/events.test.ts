import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { deleteWebhook } from '../../../src/services/events/webhooks.ts';
import { inTransaction, runWithoutRetry } from '../../../src/store/database/transaction.ts';
import { leaseDelivery, listDeliveryQueues, recordAttempt } from '../../../src/store/events/delivery-queue.ts';
import { getEventRange, insertEvent, insertEvents, listEventsAfter } from '../../../src/store/events/events.ts';
import { disableWebhook, incrementWebhookCount, insertWebhook } from '../../../src/store/events/webhooks.ts';
import { postgresTest } from '../../support/database.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';
import { until } from '../../support/until.ts';

const [user, member, other] = ['305001', '305002', '305003'] as const;
let database: TestDatabase;

before(async () => {
  database = await openTestDatabase([user, member, other], 1000, 1000);
});
after(() => database.close());

const event = (n: number) => ({ job: null, kind: 'quota.threshold', data: { n }, at: n }) as const;

describe('event numbers', () => {
  test('have no gaps and become visible in order, with many concurrent transactions', async () => {
    let writing = true;
    const seen: number[] = [];
    const reading = (async () => {
      for (;;) {
        const last = !writing;
        const events = await listEventsAfter(database.db, user, seen.at(-1) ?? 0, 7);
        seen.push(...events.map(({ seq }) => seq));
        if (last && events.length === 0) return;
        await sleep(1);
      }
    })();
    await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        inTransaction(database.db, async (tx) => {
          await insertEvent(tx, { userId: user, ...event(n) });
          // The first transaction may commit last.
          if (n % 3 === 0) await sleep(Math.random() * 10);
          await insertEvents(tx, [member, user], event(n));
        }),
      ),
    );
    writing = false;
    await reading;
    assert.deepEqual(
      seen,
      Array.from({ length: 120 }, (_, index) => index + 1),
    );
    assert.deepEqual(await getEventRange(database.db, member), { last: 60, lastExpired: 0 });
    assert.deepEqual(await getEventRange(database.db, other), { last: 0, lastExpired: 0 });
  });

  test('are not consumed by a rollback', async () => {
    const { last } = await getEventRange(database.db, other);
    const failing = inTransaction(database.db, async (tx) => {
      await insertEvent(tx, { userId: other, ...event(1) });
      throw new Error('no');
    });
    await assert.rejects(failing, /no/);
    await inTransaction(database.db, (tx) => insertEvent(tx, { userId: other, ...event(2) }));
    const events = await listEventsAfter(database.db, other, last, 10);
    assert.deepEqual(
      events.map(({ seq, data }) => [seq, data]),
      [[last + 1, '{"n":2}']],
    );
  });
});

describe('deliveries', () => {
  const lease = (owner: string, now: number) => ({ owner, now, until: now + 100 });
  const createWebhook = (userId: string, url: string, kinds: string[]) =>
    inTransaction(database.db, async (tx) => {
      assert.ok(await incrementWebhookCount(tx, userId, 10));
      return await insertWebhook(tx, { userId, url, description: '', kinds, keyId: 'key', createdAt: 1 });
    });

  test('are queued with their event for the enabled webhooks that subscribe to it', async () => {
    const [all, some, none] = [
      await createWebhook(user, 'https://a.test/', ['*']),
      await createWebhook(user, 'https://b.test/', ['quota.threshold', 'job.ended']),
      await createWebhook(user, 'https://c.test/', ['job.ended']),
    ];
    const disabled = await createWebhook(user, 'https://d.test/', ['*']);
    assert.ok(all && some && none && disabled);
    await inTransaction(database.db, (tx) =>
      disableWebhook(tx, disabled, { by: 'bursar', reason: 'for a test', now: 1 }),
    );
    assert.equal(await createWebhook(user, 'https://a.test/', ['*']), undefined, 'a user has one webhook for each URL');
    for (const n of [10, 11, 12]) await inTransaction(database.db, (tx) => insertEvents(tx, [user, member], event(n)));
    const queues = await listDeliveryQueues(database.db);
    assert.deepEqual(
      queues.toSorted((a, b) => a.webhookId - b.webhookId),
      [all, some].map((webhookId) => ({ webhookId, readyAt: 10 })),
    );
  });

  test('are leased to one sender at a time, from old to new, and to another after the lease expires', async () => {
    const [first] = await listDeliveryQueues(database.db);
    assert.ok(first);
    const { webhookId } = first;
    const claims = await Promise.all(
      Array.from({ length: 10 }, (_, n) => leaseDelivery(database.db, webhookId, lease(`sender ${n}`, 1000))),
    );
    const [claim, ...otherClaims] = claims.filter((delivery) => delivery !== undefined);
    assert.ok(claim);
    assert.deepEqual(otherClaims, []);
    assert.equal(claim.event?.data, '{"n":10}');
    assert.equal(await leaseDelivery(database.db, webhookId, lease('late', 1099)), undefined);

    const second = await leaseDelivery(database.db, webhookId, lease('second', 1100));
    assert.deepEqual([second?.id, second?.tries], [claim.id, 2]);
    const attempt = { result: '2xx', error: null, retryAt: null, now: 1101 } as const;
    const owner = `sender ${claims.findIndex((delivery) => delivery !== undefined)}`;
    assert.equal(await record(claim.id, { ...attempt, leaseOwner: owner }), false, 'the first lease has expired');
    assert.equal(await record(claim.id, { ...attempt, leaseOwner: 'second' }), true);
    const third = await leaseDelivery(database.db, webhookId, lease('second', 1102));
    assert.equal(third?.event?.data, '{"n":11}');
  });

  test('that wait for a retry do not block later ones', async () => {
    const queue = (await listDeliveryQueues(database.db)).find(({ readyAt }) => readyAt === 10);
    assert.ok(queue);
    const first = await leaseDelivery(database.db, queue.webhookId, lease('me', 2000));
    assert.ok(first);
    const failed = { leaseOwner: 'me', result: '5xx', error: 'no', retryAt: 9000, now: 2001 } as const;
    assert.ok(await record(first.id, failed));
    const second = await leaseDelivery(database.db, queue.webhookId, lease('me', 2002));
    assert.equal(second?.event?.data, '{"n":11}');
  });
});

const record = (id: number, attempt: Parameters<typeof recordAttempt>[2]) =>
  inTransaction(database.db, (tx) => recordAttempt(tx, id, attempt));

describe('the deletion of a webhook', () => {
  const url = 'https://deleted.test/';
  const createWebhook = () =>
    inTransaction(database.db, async (tx) => {
      assert.ok(await incrementWebhookCount(tx, other, 10));
      const id = await insertWebhook(tx, {
        userId: other,
        url,
        description: '',
        kinds: ['*'],
        keyId: 'key',
        createdAt: 1,
      });
      assert.ok(id);
      return id;
    });
  const countWebhooks = () =>
    database.db.selectFrom('users').select('webhooks').where('id', '=', other).executeTakeFirstOrThrow();

  test('succeeds once if several requests delete it', async () => {
    const id = await createWebhook();
    const results = await Promise.allSettled(Array.from({ length: 5 }, () => deleteWebhook(database, other, id)));
    const codes = results.map((result) => (result.status === 'fulfilled' ? 'deleted' : result.reason.code));
    assert.deepEqual(codes.toSorted(), ['deleted', ...Array(4).fill('webhook_unknown')]);
    assert.deepEqual(await countWebhooks(), { webhooks: 0 });
  });

  postgresTest(
    'waits for a transaction with an event of the user, and holds no lock that this transaction needs',
    async () => {
      const id = await createWebhook();
      const deletion = await runWithoutRetry(database.db, database.db.transaction(), async (tx) => {
        await insertEvent(tx, { userId: other, ...event(1) });
        const result = deleteWebhook(database, other, id);
        await until('the deletion waits', async () => {
          const { rows } = await sql`select 1 from pg_locks where not granted`.execute(database.db);
          return rows.length > 0 || undefined;
        });
        // The insert of a delivery takes this lock.
        await sql`select id from webhooks where id = ${id} for key share nowait`.execute(tx);
        return { result };
      });
      assert.equal((await deletion.result).id, id);
    },
  );
});
