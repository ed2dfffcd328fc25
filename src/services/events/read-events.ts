import { toEventJson } from '../../contract/event.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { type EventRecord, getEventRange, listEventsAfter } from '../../store/events/events.ts';
import type { ServiceDeps } from '../service-deps.ts';

type EventDeps = Pick<ServiceDeps, 'db' | 'eventFeed'>;

/** The start of a read: after the event with this number, with the oldest stored event, or with the next new one. */
export type EventPosition = number | 'oldest' | 'latest';

export interface StreamedEvent {
  id: number;
  type: string;
  json: string;
}

export interface EventReading {
  userId: string;
  /** The number of the event before the first one to read. */
  after: number;
  signal: AbortSignal;
  /** Rejects if the caller may no longer read: a token can be revoked while a stream is open. */
  checkAccess(): Promise<unknown>;
}

const batchSize = 100;

/** The number of the event to continue after. Throws `events_expired` if events after the position were deleted. */
export async function resolvePosition(
  { db }: Pick<EventDeps, 'db'>,
  userId: string,
  position: EventPosition,
): Promise<number> {
  const { last, lastExpired } = await getEventRange(db, userId);
  if (position === 'oldest') return lastExpired;
  if (position === 'latest') return last;
  if (position < lastExpired) throw eventsExpired(lastExpired);
  if (position <= last) return position;
  throw new BursarError(
    'bad_request',
    `There is no event ${position} yet; the last one is ${last}. Use the id of an event that you have received.`,
  );
}

/** Yields the events of a user after the given one as they happen, each once and in order, until the signal is aborted. */
export async function* followEvents(
  { db, eventFeed }: EventDeps,
  { userId, after, signal, checkAccess }: EventReading,
): AsyncGenerator<StreamedEvent> {
  const subscription = eventFeed.subscribe(userId, signal);
  let lastSeen = after;
  try {
    while (!signal.aborted) {
      const events = await listNextEvents(db, userId, lastSeen, batchSize);
      if (events.length > 0) await checkAccess();
      for (const event of events) {
        yield { id: event.seq, type: event.kind, json: toEventJson(event) };
        lastSeen = event.seq;
      }
      if (events.length < batchSize) await subscription.waitForNext(lastSeen);
    }
  } finally {
    subscription.close();
  }
}

/** One page of events as JSON. If there are none, waits for the first one, for at most `waitMs` (long polling). */
export async function pollEvents(
  { db, eventFeed }: EventDeps,
  { userId, after, signal, checkAccess }: EventReading,
  { limit, waitMs }: { limit: number; waitMs: number },
): Promise<string> {
  const waitSignal = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
  const subscription = eventFeed.subscribe(userId, waitSignal);
  try {
    let events = await listNextEvents(db, userId, after, limit);
    while (events.length === 0 && !waitSignal.aborted) {
      await subscription.waitForNext(after);
      events = await listNextEvents(db, userId, after, limit);
    }
    if (waitMs > 0) await checkAccess();
    return `{"events":[${events.map(toEventJson).join(',')}],"next":${events.at(-1)?.seq ?? after}}`;
  } finally {
    subscription.close();
  }
}

/** Event numbers have no gaps, so missing numbers are events that were deleted. */
async function listNextEvents(db: Db, userId: string, lastSeen: number, limit: number): Promise<EventRecord[]> {
  const events = await listEventsAfter(db, userId, lastSeen, limit);
  const [first] = events;
  if (first !== undefined && first.seq !== lastSeen + 1) throw eventsExpired(first.seq - 1);
  return events;
}

function eventsExpired(oldest: number): BursarError {
  return new BursarError(
    'events_expired',
    `Events up to ${oldest} have been deleted. Read your jobs and quotas, then continue with after=${oldest}.`,
    { details: { oldest } },
  );
}
