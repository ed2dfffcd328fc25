import { toEventJson } from '../../contract/event.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { type EventRecord, getEventRange, listEventsAfter } from '../../store/events/events.ts';
import type { EventFeed } from './event-feed.ts';

export interface EventReading {
  db: Db;
  feed: EventFeed;
}

/** Where to go on: after an event that has been seen, from the oldest that is kept, or with what comes from now on. */
export type EventPosition = number | 'oldest' | 'latest';

export interface StreamedEvent {
  id: number;
  type: string;
  json: string;
}

/** Rejects if the listener may no longer read: a token can be revoked while its holder is listening. */
export type AccessCheck = () => Promise<unknown>;

const batchSize = 100;

/** The number of the event to go on after. Throws when that would leave some out. */
export async function startingPoint(
  { db, feed }: EventReading,
  userId: string,
  position: EventPosition,
): Promise<number> {
  feed.checkRoom(userId);
  const { last, lastExpired } = await getEventRange(db, userId);
  if (position === 'oldest') return lastExpired;
  if (position === 'latest') return last;
  if (position < lastExpired) throw expired(lastExpired);
  if (position <= last) return position;
  throw new BursarError(
    'bad_request',
    `There is no event ${position} yet; the last one is ${last}. Go on after an event that you have seen.`,
  );
}

/** The events of a user after the given one, as they happen, each once and in order. */
export async function* followEvents(
  { db, feed }: EventReading,
  userId: string,
  after: number,
  over: AbortSignal,
  checkAccess: AccessCheck,
): AsyncGenerator<StreamedEvent> {
  const listener = feed.listen(userId, over);
  let seen = after;
  try {
    while (!over.aborted) {
      const events = await nextEvents(db, userId, seen, batchSize);
      if (events.length > 0) await checkAccess();
      for (const event of events) {
        yield { id: event.seq, type: event.kind, json: toEventJson(event) };
        seen = event.seq;
      }
      if (events.length < batchSize) await listener.next(seen);
    }
  } finally {
    listener.close();
  }
}

export interface PollRequest {
  after: number;
  limit: number;
  /** How long to wait for something to happen. */
  waitMs: number;
}

/** The same as a page of JSON: what there is, or what comes while it is waited for. */
export async function pollEvents(
  { db, feed }: EventReading,
  userId: string,
  { after, limit, waitMs }: PollRequest,
  over: AbortSignal,
  checkAccess: AccessCheck,
): Promise<string> {
  const patience = AbortSignal.any([over, AbortSignal.timeout(waitMs)]);
  const listener = feed.listen(userId, patience);
  try {
    let events = await nextEvents(db, userId, after, limit);
    while (events.length === 0 && !patience.aborted) {
      await listener.next(after);
      events = await nextEvents(db, userId, after, limit);
    }
    if (waitMs > 0) await checkAccess();
    return `{"events":[${events.map(toEventJson).join(',')}],"next":${events.at(-1)?.seq ?? after}}`;
  } finally {
    listener.close();
  }
}

/** Numbers have no gaps, so a gap consists of events that have expired since. */
async function nextEvents(db: Db, userId: string, seen: number, most: number): Promise<EventRecord[]> {
  const events = await listEventsAfter(db, userId, seen, most);
  const [first] = events;
  if (first !== undefined && first.seq !== seen + 1) throw expired(first.seq - 1);
  return events;
}

function expired(oldest: number): BursarError {
  return new BursarError(
    'events_expired',
    `Events up to ${oldest} are no longer kept. Read your jobs and quotas, then go on with after=${oldest}.`,
    { details: { oldest } },
  );
}
