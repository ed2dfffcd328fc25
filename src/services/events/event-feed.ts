import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { getLastEventSeqs } from '../../store/events/events.ts';
import type { Topic } from './topic.ts';

/** A long poll, the shortest of the connections that count, ends after a minute at the latest. */
const retryAfterSeconds = 60;

export interface EventFeedDeps {
  db: Db;
  userTopic: Pick<Topic, 'subscribe'>;
  /** Interval of the poll for events whose hint was missed. */
  pollMs: number;
  maxListenersPerUser: number;
  log: { warn(fields: object, message: string): void };
}

/** One stream or long poll that waits for events of a user. */
export interface EventSubscription {
  /** Resolves when there may be events after `lastSeen`, or when the signal is aborted. */
  waitForNext(lastSeen: number): Promise<void>;
  close(): void;
}

export interface EventFeed {
  /** Throws `too_many_listeners` if the user has reached the limit. */
  requireListenerSlot(userId: string): void;
  subscribe(userId: string, signal: AbortSignal): EventSubscription;
  stop(): Promise<void>;
}

interface UserFeed {
  /** The highest event number that a subscription has seen or was notified of. */
  last: number;
  /** Each entry notifies one subscription. */
  subscriptions: Set<() => void>;
}

/**
 * Notifies the subscriptions of new events. Hints arrive at once. One query per poll interval covers all subscriptions
 * and finds the events whose hint was missed; there are no queries while nobody is subscribed.
 */
export function createEventFeed({ db, userTopic, pollMs, maxListenersPerUser, log }: EventFeedDeps): EventFeed {
  const feeds = new Map<string, UserFeed>();
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  let currentPoll: Promise<void> = Promise.resolve();

  const notifyAll = (feed: UserFeed | undefined) => {
    for (const notify of feed?.subscriptions ?? []) notify();
  };

  async function poll(): Promise<void> {
    try {
      for (const [userId, last] of await getLastEventSeqs(db, [...feeds.keys()])) {
        const feed = feeds.get(userId);
        if (feed === undefined || last <= feed.last) continue;
        feed.last = last;
        notifyAll(feed);
      }
    } catch (error) {
      log.warn({ err: error }, 'event poll failed, will retry');
    }
  }

  function schedulePoll(): void {
    if (isStopped || timer !== undefined || feeds.size === 0) return;
    timer = setTimeout(async () => {
      currentPoll = poll();
      await currentPoll;
      timer = undefined;
      schedulePoll();
    }, pollMs);
  }

  function subscribe(userId: string, signal: AbortSignal): EventSubscription {
    const feed = feeds.get(userId) ?? { last: 0, subscriptions: new Set() };
    feeds.set(userId, feed);
    let isNotified = false;
    let resume: (() => void) | undefined;
    const notify = () => {
      isNotified = true;
      resume?.();
    };
    feed.subscriptions.add(notify);
    signal.addEventListener('abort', notify);
    schedulePoll();
    return {
      async waitForNext(lastSeen) {
        feed.last = Math.max(feed.last, lastSeen);
        if (!isNotified && !signal.aborted) {
          await new Promise<void>((resolve) => {
            resume = resolve;
          });
        }
        isNotified = false;
      },
      close() {
        signal.removeEventListener('abort', notify);
        feed.subscriptions.delete(notify);
        if (feed.subscriptions.size === 0 && feeds.get(userId) === feed) feeds.delete(userId);
      },
    };
  }

  userTopic.subscribe((userId) => notifyAll(feeds.get(userId)));
  return {
    requireListenerSlot(userId) {
      if ((feeds.get(userId)?.subscriptions.size ?? 0) < maxListenersPerUser) return;
      const message = `You have ${maxListenersPerUser} open event streams and long polls, which is the limit. Close some of them.`;
      throw new BursarError('too_many_listeners', message, { transient: true, retryAfterSeconds });
    },
    subscribe,
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await currentPoll;
    },
  };
}
