import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { sql } from 'kysely';
import { deleteWebhook, disableWebhook, type WebhookDeps } from '../../../src/services/events/webhooks.ts';
import { commandLineActor } from '../../../src/services/identity/actor.ts';
import { connectDatabase } from '../../../src/store/database/database.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { insertTestDelivery } from '../../../src/store/events/deliveries.ts';
import { incrementWebhookCount, insertWebhook } from '../../../src/store/events/webhooks.ts';
import type { AttemptResult } from '../../../src/webhooks/send.ts';
import { startWebhookWorker, type WebhookWorkerDeps } from '../../../src/workers/webhook-worker.ts';
import { databaseSettings, postgresTest } from '../../support/database.ts';
import { openTestDatabase } from '../../support/test-database.ts';
import { until } from '../../support/until.ts';

/** A webhook with two pending deliveries: the worker is sending `sending`, and `later` is not due. */
async function setUp(t: TestContext) {
  const database = await openTestDatabase(['1'], 1, 1);
  t.after(() => database.close());
  const conflicts: unknown[] = [];
  const connected = connectDatabase(databaseSettings(database.folder), database.folder);
  t.after(() => connected.destroy());
  const { dialect } = connected.backend;
  const isRetryableConflict = (error: unknown) => {
    const isConflict = dialect.isRetryableConflict(error);
    if (isConflict) conflicts.push(error);
    return isConflict;
  };
  const db = Object.assign(connected, {
    backend: { ...connected.backend, dialect: { ...dialect, isRetryableConflict } },
  });
  const [id, later, sending] = await inTransaction(db, async (tx) => {
    await incrementWebhookCount(tx, '1', 1);
    const webhook = { userId: '1', url: 'https://x/', description: '', kinds: ['*'], keyId: 'key' };
    const webhookId = (await insertWebhook(tx, { ...webhook, createdAt: 1 })) ?? 0;
    return [webhookId, await insertTestDelivery(tx, webhookId, 1000), await insertTestDelivery(tx, webhookId, 1)];
  });
  await db.updateTable('webhooks').set({ failures: 1, failingSince: 1 }).execute();

  const response = Promise.withResolvers<AttemptResult>();
  let isSending = false;
  const worker = startWebhookWorker({
    db,
    secretKey: { id: 'key', bytes: Buffer.alloc(32) },
    send: () => {
      isSending = true;
      return response.promise;
    },
    ...{ leaseOwner: 'test', leaseMs: 60_000, concurrency: 1, pollMs: 10, retrySeconds: [60], disableAfterMs: 1e9 },
    publish: () => undefined,
    metrics: { increment: () => undefined },
    tracing: null,
    now: () => 2,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  } as WebhookWorkerDeps);
  await until('the delivery is being sent', () => isSending || undefined);

  return {
    ...{ id, later, conflicts, worker, respond: response.resolve },
    deps: { db, now: () => 2, userTopic: { publish: () => undefined } } as unknown as WebhookDeps,
    /** Runs `work` while nobody else can change a row. */
    async whileLocked(table: 'webhooks' | 'deliveries', rowId: number, work: () => Promise<void>): Promise<void> {
      await database.db.transaction().execute(async (tx) => {
        await tx.selectFrom(table).select('id').where('id', '=', rowId).forUpdate().execute();
        await work();
      });
    },
    /** Waits until this many transactions wait for a lock, or the delivery has succeeded. */
    waitForWaiting: (count: number) =>
      until(`${count} transactions wait for a lock`, async () => {
        const { rows } = await sql<{ count: number }>`select count(*) as count from pg_stat_activity
          where wait_event_type = 'Lock' and datname = current_database()`.execute(database.db);
        const delivery = await db.selectFrom('deliveries').select('state').where('id', '=', sending).executeTakeFirst();
        return (rows[0]?.count ?? 0) >= count || delivery?.state === 'delivered' || undefined;
      }),
  };
}

postgresTest('deleting a webhook while a delivery disables it is no deadlock', async (t) => {
  const { id, deps, respond, conflicts, worker, whileLocked, waitForWaiting } = await setUp(t);
  let deleted: Promise<unknown> | undefined;
  await whileLocked('webhooks', id, async () => {
    respond({ ok: false, result: '4xx', status: 410, error: 'gone', detail: 'gone' });
    await waitForWaiting(1);
    deleted = deleteWebhook(deps, '1', id);
    await waitForWaiting(2);
  });
  await deleted;
  await worker.stop();
  assert.deepEqual(conflicts, []);
});

postgresTest('disabling a webhook while a delivery succeeds is no deadlock', async (t) => {
  const { id, later, deps, respond, conflicts, worker, whileLocked, waitForWaiting } = await setUp(t);
  let disabled: Promise<unknown> | undefined;
  await whileLocked('deliveries', later, async () => {
    disabled = disableWebhook(deps, '1', id, 'test', { actor: commandLineActor('admin'), idempotency: null });
    await waitForWaiting(1);
    respond({ ok: true, result: '2xx', status: 200, error: null, detail: null });
    await waitForWaiting(2);
  });
  await disabled;
  await worker.stop();
  assert.deepEqual(conflicts, []);
});
