import { sql } from 'kysely';
import type { EventKind } from '../../domain/event.ts';
import type { Db, Tx } from '../database/handle.ts';
import { insertRows, rowBuilder, type TableRows } from '../database/inserts.ts';

export interface NewEvent {
  userId: string;
  job: number | null;
  /** The public JSON of the job, as it is from now on. */
  jobJson?: string;
  kind: EventKind;
  data: Readonly<Record<string, unknown>>;
  at: number;
}

type EventContent = Omit<NewEvent, 'userId'>;

/**
 * An event as it is kept. Its number counts the events of its user: it is taken from the user's row, which stays locked
 * until the commit, so there are no gaps, and who has seen an event has seen, or can read, all before it.
 */
export interface EventRecord {
  seq: number;
  kind: EventKind;
  /** JSON texts. */
  jobJson: string | null;
  data: string;
  at: number;
}

/** Events are written in the transaction of what they tell of, so that neither exists without the other. */
export async function insertEvent(tx: Tx, { userId, ...event }: NewEvent): Promise<void> {
  await insertEvents(tx, [userId], event);
}

/** The same event for several users. */
export async function insertEvents(tx: Tx, userIds: readonly string[], event: EventContent): Promise<void> {
  // A statement binds a limited number of values; a project can have more members than that.
  for (let first = 0; first < userIds.length; first += 1000) {
    const numbered = await tx
      .updateTable('users')
      .set((eb) => ({ event_seq: eb('event_seq', '+', 1) }))
      .where('id', 'in', userIds.slice(first, first + 1000))
      .returning(recipientColumns)
      .execute();
    if (numbered.length > 0) await insertNumbered(tx, numbered, event);
  }
}

/** A user whose next event has its number. */
interface EventRecipient {
  id: string;
  seq: number;
  webhooks: number;
}

export const recipientColumns = ['id', 'event_seq as seq', 'webhooks'] as const;

/** The same, where the numbers are taken. */
async function insertNumbered(tx: Tx, users: readonly EventRecipient[], event: EventContent): Promise<void> {
  const [user] = users;
  if (user !== undefined && users.length === 1) await insertRows(tx, toEventRows(user, event));
  else
    await tx
      .insertInto('events')
      .values(users.map((one) => eventRow(one, event)))
      .execute();
  await queueDeliveries(tx, users);
}

/** The row of an event whose number is taken. Its deliveries are queued once it is in the books. */
export function toEventRows(user: EventRecipient, event: EventContent): TableRows {
  return buildEventRows([eventRow(user, event)]);
}

function eventRow({ id, seq }: EventRecipient, { job, jobJson, kind, data, at }: EventContent) {
  return { user_id: id, seq, job, job_json: jobJson ?? null, kind, data: JSON.stringify(data), at, forgotten: 0 };
}

const buildEventRows = rowBuilder('events', ['user_id', 'seq', 'job', 'job_json', 'kind', 'data', 'at', 'forgotten']);

/**
 * The last event of each of these users goes to those of their webhooks that want it: part of the same transaction, so
 * that none is left out.
 */
export async function queueDeliveries(tx: Tx, users: readonly EventRecipient[]): Promise<void> {
  const userIds = users.filter(({ webhooks }) => webhooks > 0).map(({ id }) => id);
  if (userIds.length === 0) return;
  await tx
    .insertInto('deliveries')
    .columns(['webhook_id', 'event_id', 'state', 'created_at', 'due_at', 'tries', 'lease_until'])
    .expression((eb) =>
      eb
        .selectFrom('users')
        .innerJoin('events', (join) =>
          join.onRef('events.user_id', '=', 'users.id').onRef('events.seq', '=', 'users.event_seq'),
        )
        .innerJoin('webhooks', 'webhooks.user_id', 'users.id')
        .innerJoin('subscriptions', 'subscriptions.webhook_id', 'webhooks.id')
        .select([
          'webhooks.id',
          'events.id as event',
          sql.lit('pending').as('state'),
          'events.at as created',
          'events.at as due',
          sql.lit(0).as('tries'),
          sql.lit(0).as('lease'),
        ])
        .where('users.id', 'in', userIds)
        .where('webhooks.disabled_at', 'is', null)
        .where((on) =>
          on.or([on('subscriptions.kind', '=', '*'), on('subscriptions.kind', '=', on.ref('events.kind'))]),
        )
        .orderBy('webhooks.id'),
    )
    .execute();
}

const columns = ['seq', 'kind', 'job_json as jobJson', 'data', 'at'] as const;

/** The events of a user after one that has been seen, the first one first. */
export async function listEventsAfter(db: Db, userId: string, seq: number, most: number): Promise<EventRecord[]> {
  return await db
    .selectFrom('events')
    .select(columns)
    .where('user_id', '=', userId)
    .where('seq', '>', seq)
    .where('forgotten', '=', 0)
    .orderBy('seq')
    .limit(most)
    .execute();
}

/** What became of a job, from the first to the last. */
export async function listJobEvents(db: Db, job: number): Promise<EventRecord[]> {
  return await db.selectFrom('events').select(columns).where('job', '=', job).orderBy('id').execute();
}

/** How far the events of a user reach: the last one, and the last one that has been forgotten. */
export interface EventRange {
  last: number;
  lastExpired: number;
}

export async function getEventRange(db: Db, userId: string): Promise<EventRange> {
  return await db
    .selectFrom('users')
    .select(['event_seq as last', 'events_forgotten as lastExpired'])
    .where('id', '=', userId)
    .executeTakeFirstOrThrow();
}

/** The number of the last event of each of these users: one look for all of them. */
export async function getLastEventNumbers(db: Db, userIds: readonly string[]): Promise<Map<string, number>> {
  const last = new Map<string, number>();
  for (let first = 0; first < userIds.length; first += 10_000) {
    const rows = await db
      .selectFrom('users')
      .select(['id', 'event_seq'])
      .where('id', 'in', userIds.slice(first, first + 10_000))
      .execute();
    for (const row of rows) last.set(row.id, row.event_seq);
  }
  return last;
}

const forgetAtOnce = 500;

/**
 * Forgets events from before a moment, with their deliveries, a few at a time: true when there may be more. What tells of
 * a job is kept for its timeline.
 */
export async function expireEvents(tx: Tx, before: number): Promise<boolean> {
  const old = await tx
    .selectFrom('events')
    .select(['id', 'user_id', 'seq', 'job'])
    .where('forgotten', '=', 0)
    .where('at', '<', before)
    .orderBy('at')
    .limit(forgetAtOnce)
    .execute();
  if (old.length === 0) return false;
  for (const [userId, rows] of Map.groupBy(old, (row) => row.user_id)) {
    const last = Math.max(...rows.map(({ seq }) => seq));
    await tx
      .updateTable('users')
      .set({ events_forgotten: last })
      .where('id', '=', userId)
      .where('events_forgotten', '<', last)
      .execute();
  }
  const ids = old.map(({ id }) => id);
  await tx.deleteFrom('deliveries').where('event_id', 'in', ids).execute();
  await tx.deleteFrom('events').where('id', 'in', ids).where('job', 'is', null).execute();
  await tx.updateTable('events').set({ forgotten: 1, job_json: null }).where('id', 'in', ids).execute();
  return old.length === forgetAtOnce;
}
