import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { getLastEventNumbers } from '../../store/events/events.ts';
import type { Topic } from './publish.ts';

export interface EventFeedDeps {
  db: Db;
  userTopic: Pick<Topic, 'subscribe'>;
  /** How often it is looked for what was written by others. */
  checkMs: number;
  listenersPerUser: number;
  log: { warn(fields: object, message: string): void };
}

/** Somebody who waits for the events of a user. */
export interface Listener {
  /** Returns when there may be more than what has been seen, or when listening is over. */
  next(seen: number): Promise<void>;
  close(): void;
}

export interface EventFeed {
  /** Throws when the user has too many listeners already. */
  checkRoom(userId: string): void;
  listen(userId: string, over: AbortSignal): Listener;
  stop(): Promise<void>;
}

interface Audience {
  /** The last event that anybody here has seen, or been woken for. */
  last: number;
  listeners: Set<{ wake(): void }>;
}

/**
 * Wakes those who wait for events. However many they are, there is one look into the books for all of them a moment,
 * and none while nobody listens; what this process writes itself is announced, and reaches them at once.
 */
export function createEventFeed({ db, userTopic, checkMs, listenersPerUser, log }: EventFeedDeps): EventFeed {
  const audiences = new Map<string, Audience>();
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();

  const wakeAll = (audience: Audience | undefined) => {
    for (const listener of audience?.listeners ?? []) listener.wake();
  };

  async function look(): Promise<void> {
    try {
      for (const [userId, last] of await getLastEventNumbers(db, [...audiences.keys()])) {
        const audience = audiences.get(userId);
        if (audience === undefined || last <= audience.last) continue;
        audience.last = last;
        wakeAll(audience);
      }
    } catch (error) {
      log.warn({ err: error }, 'no look for new events');
    }
  }

  function lookAgain(): void {
    if (stopped || timer !== undefined || audiences.size === 0) return;
    timer = setTimeout(async () => {
      looking = look();
      await looking;
      timer = undefined;
      lookAgain();
    }, checkMs);
  }

  function listen(userId: string, over: AbortSignal): Listener {
    const audience = audiences.get(userId) ?? { last: 0, listeners: new Set() };
    audiences.set(userId, audience);
    let woken = false;
    let end: (() => void) | undefined;
    const own = {
      wake: () => {
        woken = true;
        end?.();
      },
    };
    audience.listeners.add(own);
    over.addEventListener('abort', own.wake);
    lookAgain();
    return {
      async next(seen) {
        audience.last = Math.max(audience.last, seen);
        if (!woken && !over.aborted) {
          await new Promise<void>((resolve) => {
            end = resolve;
          });
        }
        woken = false;
      },
      close() {
        over.removeEventListener('abort', own.wake);
        audience.listeners.delete(own);
        if (audience.listeners.size === 0 && audiences.get(userId) === audience) audiences.delete(userId);
      },
    };
  }

  userTopic.subscribe((userId) => wakeAll(audiences.get(userId)));
  return {
    checkRoom(userId) {
      if ((audiences.get(userId)?.listeners.size ?? 0) < listenersPerUser) return;
      const message = `You are listening ${listenersPerUser} times already. Close some, or share one among your programs.`;
      throw new BursarError('too_many_listeners', message, { transient: true });
    },
    listen,
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await looking;
    },
  };
}
