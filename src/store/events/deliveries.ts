import type { Delivery } from '../../domain/webhook.ts';
import type { Db, Tx } from '../database/handle.ts';

export interface DeliveryRecord extends Delivery {
  webhookId: number;
}

function selectDeliveries(db: Db, webhookId: number) {
  return db
    .selectFrom('deliveries')
    .leftJoin('events', 'events.id', 'deliveries.event_id')
    .selectAll('deliveries')
    .select(['events.seq', 'events.kind'])
    .where('deliveries.webhook_id', '=', webhookId);
}

type DeliveryRow = Awaited<ReturnType<ReturnType<typeof selectDeliveries>['executeTakeFirstOrThrow']>>;

function toDeliveryRecord(row: DeliveryRow): DeliveryRecord {
  return {
    id: row.id,
    webhookId: row.webhook_id,
    event: row.seq === null || row.kind === null ? null : { seq: row.seq, kind: row.kind },
    state: row.state,
    createdAt: row.created_at,
    dueAt: row.due_at,
    tries: row.tries,
    lastAt: row.last_at,
    lastResult: row.last_result,
    lastError: row.last_error,
  };
}

/** Lists deliveries from new to old, starting before the id `before` if it is given. */
export async function listDeliveries(
  db: Db,
  webhookId: number,
  limit: number,
  before?: number,
): Promise<DeliveryRecord[]> {
  let query = selectDeliveries(db, webhookId).orderBy('deliveries.id', 'desc').limit(limit);
  if (before !== undefined) query = query.where('deliveries.id', '<', before);
  return (await query.execute()).map(toDeliveryRecord);
}

export async function findDelivery(db: Db, webhookId: number, id: number): Promise<DeliveryRecord | undefined> {
  const row = await selectDeliveries(db, webhookId).where('deliveries.id', '=', id).executeTakeFirst();
  return row && toDeliveryRecord(row);
}

/** Queues a delivery without an event, which tests whether the webhook responds. */
export async function insertTestDelivery(tx: Tx, webhookId: number, now: number): Promise<number> {
  const { id } = await tx
    .insertInto('deliveries')
    .values({
      webhook_id: webhookId,
      event_id: null,
      state: 'pending',
      created_at: now,
      due_at: now,
      tries: 0,
      lease_owner: null,
      lease_until: 0,
      last_at: null,
      last_result: null,
      last_error: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Queues a delivery again, whatever its state. One that is being sent is not changed. */
export async function requeueDelivery(tx: Tx, id: number, now: number): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set({ state: 'pending', due_at: now, tries: 0, lease_owner: null, lease_until: 0 })
    .where('id', '=', id)
    .where((eb) => eb.or([eb('state', '<>', 'pending'), eb('lease_until', '<=', now)]))
    .execute();
}

/** Deletes old test deliveries. The others are deleted with their events. */
export async function deleteTestDeliveries(tx: Tx, before: number): Promise<void> {
  await tx.deleteFrom('deliveries').where('event_id', 'is', null).where('created_at', '<', before).execute();
}
