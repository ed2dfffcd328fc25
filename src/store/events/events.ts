import { sql } from 'kysely';
import { chunks } from '../../domain/chunks.ts';
import type { EventKind } from '../../domain/event.ts';
import type { Db, Tx } from '../database/handle.ts';
import { insertRows } from '../database/prepared.ts';

export interface NewEvent {
  userId: string;
  job: number | null;
  /** The public JSON of the job after the event. */
  jobJson?: string | null;
  kind: EventKind;
  data: Readonly<Record<string, unknown>>;
  at: number;
}

type EventContent = Omit<NewEvent, 'userId'>;

export interface EventRecord {
  /**
   * Numbers the events of a user. It is taken from the user's row, which stays locked until the commit. So there are no
   * gaps, and a reader who has seen an event can read all earlier ones.
   */
  seq: number;
  kind: EventKind;
  jobJson: string | null;
  /** JSON. */
  data: string;
  at: number;
}

/** Inserts an event in the transaction of the change that it reports, so that neither exists without the other. */
export async function insertEvent(tx: Tx, { userId, ...event }: NewEvent): Promise<void> {
  await insertEvents(tx, [userId], event);
}

/** Inserts the same event for several users. */
export async function insertEvents(tx: Tx, userIds: readonly string[], event: EventContent): Promise<void> {
  for (const chunk of chunks(userIds)) {
    const recipients = await tx
      .updateTable('users')
      .set((eb) => ({ eventSeq: eb('eventSeq', '+', 1) }))
      .where('id', 'in', chunk)
      .returning(recipientColumns)
      .execute();
    const rows = recipients.map((user) => toEventRow(user, event));
    // Only the insert of one row is prepared: each number of rows would be another statement.
    if (rows.length === 1) await insertRows(tx, { events: rows });
    else if (rows.length > 0) await tx.insertInto('events').values(rows).execute();
    await queueDeliveries(tx, recipients);
  }
}

/** A user, with the `seq` of the user's next event. */
interface EventRecipient {
  id: string;
  seq: number;
  webhooks: number;
}

export const recipientColumns = ['id', 'eventSeq as seq', 'webhooks'] as const;

/** The row of an event, with the number that the user's row has for it. After inserting it, call `queueDeliveries`. */
export function toEventRow({ id, seq }: EventRecipient, { job, jobJson = null, kind, data, at }: EventContent) {
  return { userId: id, seq, job, jobJson, kind, data: JSON.stringify(data), at, expired: 0 };
}

/**
 * Queues the last event of each user for the user's webhooks that subscribe to its kind, in the transaction of the event,
 * so that no delivery is lost.
 */
export async function queueDeliveries(tx: Tx, users: readonly EventRecipient[]): Promise<void> {
  const userIds = users.filter(({ webhooks }) => webhooks > 0).map(({ id }) => id);
  if (userIds.length === 0) return;
  await sql`
    insert into deliveries (webhook_id, event_id, state, created_at, due_at, tries, lease_until)
    select webhooks.id, events.id, 'pending', events.at, events.at, 0, 0 from users
    join events on events.user_id = users.id and events.seq = users.event_seq
    join webhooks on webhooks.user_id = users.id join subscriptions on subscriptions.webhook_id = webhooks.id
    where users.id in (${sql.join(userIds)}) and users.disabled_at is null and webhooks.disabled_at is null
      and subscriptions.kind in ('*', events.kind)
    order by webhooks.id`.execute(tx);
}

const eventColumns = ['seq', 'kind', 'jobJson', 'data', 'at'] as const;

/** Lists the events of a user after `seq`, in order. */
export async function listEventsAfter(db: Db, userId: string, seq: number, limit: number): Promise<EventRecord[]> {
  return await db
    .selectFrom('events')
    .select(eventColumns)
    .where('userId', '=', userId)
    .where('seq', '>', seq)
    .where('expired', '=', 0)
    .orderBy('seq')
    .limit(limit)
    .execute();
}

/** Lists all events of a job in order, even expired ones. */
export async function listJobEvents(db: Db, job: number): Promise<EventRecord[]> {
  return await db.selectFrom('events').select(eventColumns).where('job', '=', job).orderBy('id').execute();
}

/** The `seq` of a user's last event and last expired event. */
export async function getEventRange(db: Db, userId: string) {
  return await db
    .selectFrom('users')
    .select(['eventSeq as last', 'eventsExpired as lastExpired'])
    .where('id', '=', userId)
    .executeTakeFirstOrThrow();
}

/** Reads the `seq` of the last event of each user. */
export async function getLastEventSeqs(db: Db, userIds: readonly string[]): Promise<Map<string, number>> {
  const last = new Map<string, number>();
  for (const chunk of chunks(userIds)) {
    const rows = await db.selectFrom('users').select(['id', 'eventSeq']).where('id', 'in', chunk).execute();
    for (const row of rows) last.set(row.id, row.eventSeq);
  }
  return last;
}

const expiryBatchSize = 500;

/**
 * Expires some of the events from before a time, and deletes their deliveries. Returns true if there may be more. Events
 * of jobs stay for the timelines; other events are deleted.
 */
export async function expireEvents(tx: Tx, before: number): Promise<boolean> {
  const expired = await tx
    .selectFrom('events')
    .select(['id', 'userId', 'seq', 'job'])
    // A literal: with a parameter the index `events_by_age`, of these events only, would not be used.
    .where('expired', '=', sql.lit(0))
    .where('at', '<', before)
    .orderBy('at')
    .limit(expiryBatchSize)
    .execute();
  if (expired.length === 0) return false;
  for (const [userId, rows] of Map.groupBy(expired, (row) => row.userId)) {
    const last = Math.max(...rows.map(({ seq }) => seq));
    await tx
      .updateTable('users')
      .set({ eventsExpired: last })
      .where('id', '=', userId)
      .where('eventsExpired', '<', last)
      .execute();
  }
  const ids = expired.map(({ id }) => id);
  await tx.deleteFrom('deliveries').where('eventId', 'in', ids).execute();
  await tx.deleteFrom('events').where('id', 'in', ids).where('job', 'is', null).execute();
  await tx.updateTable('events').set({ expired: 1, jobJson: null }).where('id', 'in', ids).execute();
  return expired.length === expiryBatchSize;
}
