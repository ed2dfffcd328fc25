import { EventEmitter } from 'node:events';
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

/**
 * Notifies the subscriptions of new events. Hints arrive at once. One query per poll interval covers all subscriptions
 * and finds the events whose hint was missed; there are no queries while nobody is subscribed.
 */
export function createEventFeed({ db, userTopic, pollMs, log }: EventFeedDeps): EventFeed {
  // An event has the id of a user for its name, and the number of the last event of the user. A hint has no number.
  const emitter = new EventEmitter().setMaxListeners(0);
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  let currentPoll: Promise<void> = Promise.resolve();

  async function poll(): Promise<void> {
    try {
      for (const [userId, last] of await getLastEventSeqs(db, emitter.eventNames() as string[])) {
        emitter.emit(userId, last);
      }
    } catch (error) {
      log.warn({ err: error }, 'event poll failed, will retry');
    }
  }

  function schedulePoll(): void {
    if (isStopped || timer !== undefined || emitter.eventNames().length === 0) return;
    timer = setTimeout(async () => {
      currentPoll = poll();
      await currentPoll;
      timer = undefined;
      schedulePoll();
    }, pollMs);
  }

  function subscribe(userId: string, signal: AbortSignal): EventSubscription {
    /** The highest number that the subscriber has seen or was notified of. */
    let highest = 0;
    let isNotified = false;
    let resume: (() => void) | undefined;
    const notify = () => {
      isNotified = true;
      resume?.();
    };
    const onEvent = (last?: number) => {
      if (last !== undefined && last <= highest) return;
      highest = last ?? highest;
      notify();
    };
    emitter.on(userId, onEvent);
    signal.addEventListener('abort', notify);
    schedulePoll();
    return {
      async waitForNext(lastSeen) {
        highest = Math.max(highest, lastSeen);
        if (!isNotified && !signal.aborted) {
          await new Promise<void>((resolve) => {
            resume = resolve;
          });
        }
        isNotified = false;
      },
      close() {
        signal.removeEventListener('abort', notify);
        emitter.off(userId, onEvent);
      },
    };
  }

  userTopic.subscribe((userId) => emitter.emit(userId));
  return {
    subscribe,
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await currentPoll;
    },
  };
}
