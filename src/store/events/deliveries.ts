import type { Db } from '../database/handle.ts';
import type { DeliveryState } from '../database/tables.ts';
import type { EventRecord } from './events.ts';

/** One event for one webhook, and what became of it. */
export interface DeliveryRecord {
  id: number;
  webhookId: number;
  /** Null for a test. */
  event: Pick<EventRecord, 'seq' | 'kind'> | null;
  state: DeliveryState;
  createdAt: number;
  dueAt: number;
  tries: number;
  lastAt: number | null;
  lastStatus: number | null;
  lastError: string | null;
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

function deliveryRecord(row: DeliveryRow): DeliveryRecord {
  return {
    id: row.id,
    webhookId: row.webhook_id,
    event: row.seq === null || row.kind === null ? null : { seq: row.seq, kind: row.kind },
    state: row.state,
    createdAt: row.created_at,
    dueAt: row.due_at,
    tries: row.tries,
    lastAt: row.last_at,
    lastStatus: row.last_status,
    lastError: row.last_error,
  };
}

/** The newest first, before a record number where one is given. */
export async function listDeliveries(
  db: Db,
  webhookId: number,
  most: number,
  before?: number,
): Promise<DeliveryRecord[]> {
  let query = selectDeliveries(db, webhookId).orderBy('deliveries.id', 'desc').limit(most);
  if (before !== undefined) query = query.where('deliveries.id', '<', before);
  return (await query.execute()).map(deliveryRecord);
}

export async function findDelivery(db: Db, webhookId: number, id: number): Promise<DeliveryRecord | undefined> {
  const row = await selectDeliveries(db, webhookId).where('deliveries.id', '=', id).executeTakeFirst();
  return row && deliveryRecord(row);
}

/** A delivery that tells of nothing, to see whether it arrives. */
export async function insertTestDelivery(db: Db, webhookId: number, now: number): Promise<number> {
  const { id } = await db
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
      last_status: null,
      last_error: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Lets a delivery start anew, whatever became of it. One that is on its way goes on as it is. */
export async function requeueDelivery(db: Db, id: number, now: number): Promise<void> {
  await db
    .updateTable('deliveries')
    .set({ state: 'pending', due_at: now, tries: 0, lease_owner: null, lease_until: 0 })
    .where('id', '=', id)
    .where((eb) => eb.or([eb('state', '<>', 'pending'), eb('lease_until', '<=', now)]))
    .execute();
}

/** Tests have no event to be forgotten with. */
export async function deleteTestDeliveries(db: Db, before: number): Promise<void> {
  await db.deleteFrom('deliveries').where('event_id', 'is', null).where('created_at', '<', before).execute();
}
