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
