import type { Db, Tx } from '../database/handle.ts';

function selectDeliveries(db: Db, webhookId: number) {
  return db
    .selectFrom('deliveries')
    .leftJoin('events', 'events.id', 'deliveries.eventId')
    .selectAll('deliveries')
    .select(['events.seq', 'events.kind'])
    .where('deliveries.webhookId', '=', webhookId);
}

type DeliveryRow = Awaited<ReturnType<ReturnType<typeof selectDeliveries>['executeTakeFirstOrThrow']>>;

function toDeliveryRecord({ seq, kind, ...row }: DeliveryRow) {
  // Null for a test delivery.
  return { ...row, event: seq === null || kind === null ? null : { seq, kind } };
}

/** Lists deliveries from new to old, starting before the id `before` if it is given. */
export async function listDeliveries(db: Db, webhookId: number, limit: number, before?: number) {
  let query = selectDeliveries(db, webhookId).orderBy('deliveries.id', 'desc').limit(limit);
  if (before !== undefined) query = query.where('deliveries.id', '<', before);
  return (await query.execute()).map(toDeliveryRecord);
}

export async function findDelivery(db: Db, webhookId: number, id: number) {
  const row = await selectDeliveries(db, webhookId).where('deliveries.id', '=', id).executeTakeFirst();
  return row && toDeliveryRecord(row);
}

/** Queues a delivery without an event, which tests whether the webhook responds. */
export async function insertTestDelivery(tx: Tx, webhookId: number, now: number): Promise<number> {
  const { id } = await tx
    .insertInto('deliveries')
    .values({ webhookId, state: 'pending', createdAt: now, dueAt: now, tries: 0, leaseUntil: 0 })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Queues a delivery again, whatever its state. One that is being sent is not changed. */
export async function requeueDelivery(tx: Tx, id: number, now: number): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set({ state: 'pending', dueAt: now, tries: 0, leaseOwner: null, leaseUntil: 0 })
    .where('id', '=', id)
    .where((eb) => eb.or([eb('state', '<>', 'pending'), eb('leaseUntil', '<=', now)]))
    .execute();
}

/** Deletes old test deliveries. The others are deleted with their events. */
export async function deleteTestDeliveries(tx: Tx, before: number): Promise<void> {
  await tx.deleteFrom('deliveries').where('eventId', 'is', null).where('createdAt', '<', before).execute();
}
