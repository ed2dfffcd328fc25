import type { Db } from '../../store/database/handle.ts';
import { getLastEventSeqs } from '../../store/events/events.ts';

/**
 * Hints, published after a commit, that there is something new for a user or to do on a system. A subscriber reads the
 * database; one that misses a hint finds the change at its next poll.
 */
export interface Topic {
  publish(name: string): void;
  subscribe(listener: (name: string) => void): void;
}

/** Carries hints to and from the other instances on the same database. */
export interface Broadcast {
  notify(topic: string, name: string): void;
  onNotification(listener: (topic: string, name: string) => void): void;
}

/** A topic within this process and, with a broadcast, on all instances. */
export function createTopic(topic: string, broadcast?: Broadcast): Topic {
  const listeners: ((name: string) => void)[] = [];
  const deliver = (name: string) => {
    for (const listener of listeners) listener(name);
  };
  broadcast?.onNotification((about, name) => {
    if (about === topic) deliver(name);
  });
  return {
    publish: (name) => {
      deliver(name);
      broadcast?.notify(topic, name);
    },
    subscribe: (listener) => {
      listeners.push(listener);
    },
  };
}

export interface EventFeedDeps {
  db: Db;
  userTopic: Pick<Topic, 'subscribe'>;
  /** Interval of the poll for events whose hint was missed. */
  pollMs: number;
  log: { warn(fields: object, message: string): void };
}

/** One stream or long poll that waits for events of a user. */
export interface EventSubscription {
  /** Resolves when there may be events after `lastSeen`, or when the signal is aborted. */
  waitForNext(lastSeen: number): Promise<void>;
  close(): void;
}

export interface EventFeed {
  subscribe(userId: string, signal: AbortSignal): EventSubscription;
  stop(): Promise<void>;
}

interface Subscriber {
  /** The highest event number that this subscriber has seen or was notified of. */
  last: number;
  notify(): void;
}

/**
 * Notifies the subscriptions of new events. Hints arrive at once. One query per poll interval covers all subscriptions
 * and finds the events whose hint was missed; there are no queries while nobody is subscribed.
 */
export function createEventFeed({ db, userTopic, pollMs, log }: EventFeedDeps): EventFeed {
  const subscribersByUser = new Map<string, Set<Subscriber>>();
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  let currentPoll: Promise<void> = Promise.resolve();

  const subscribersOf = (userId: string): Iterable<Subscriber> => subscribersByUser.get(userId) ?? [];

  async function poll(): Promise<void> {
    try {
      for (const [userId, last] of await getLastEventSeqs(db, [...subscribersByUser.keys()])) {
        for (const subscriber of subscribersOf(userId)) {
          if (last <= subscriber.last) continue;
          subscriber.last = last;
          subscriber.notify();
        }
      }
    } catch (error) {
      log.warn({ err: error }, 'event poll failed, will retry');
    }
  }

  function schedulePoll(): void {
    if (isStopped || timer !== undefined || subscribersByUser.size === 0) return;
    timer = setTimeout(async () => {
      currentPoll = poll();
      await currentPoll;
      timer = undefined;
      schedulePoll();
    }, pollMs);
  }

  function subscribe(userId: string, signal: AbortSignal): EventSubscription {
    const subscribers = subscribersByUser.get(userId) ?? new Set();
    subscribersByUser.set(userId, subscribers);
    let isNotified = false;
    let resume: (() => void) | undefined;
    const notify = () => {
      isNotified = true;
      resume?.();
    };
    const subscriber: Subscriber = { last: 0, notify };
    subscribers.add(subscriber);
    signal.addEventListener('abort', notify);
    schedulePoll();
    return {
      async waitForNext(lastSeen) {
        subscriber.last = Math.max(subscriber.last, lastSeen);
        if (!isNotified && !signal.aborted) {
          await new Promise<void>((resolve) => {
            resume = resolve;
          });
        }
        isNotified = false;
      },
      close() {
        signal.removeEventListener('abort', notify);
        subscribers.delete(subscriber);
        if (subscribers.size === 0 && subscribersByUser.get(userId) === subscribers) subscribersByUser.delete(userId);
      },
    };
  }

  userTopic.subscribe((userId) => {
    for (const { notify } of subscribersOf(userId)) notify();
  });
  return {
    subscribe,
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await currentPoll;
    },
  };
}
