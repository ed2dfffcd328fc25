/**
 * Word that there is something new in the books: for a user, or to do on a system. It is given after the commit, and it
 * is only a hint: who gets it looks into the books, and who misses it looks a little later.
 */
export interface Topic {
  publish(name: string): void;
  subscribe(listener: (name: string) => void): void;
}

/** Where else word is passed on, and comes from: other Bursars on the same books. */
export interface Broadcast {
  notify(topic: string, name: string): void;
  onNotification(listener: (topic: string, name: string) => void): void;
}

/** Announcements within this process; with a line, to and from the others too. */
export function createTopic(topic: string, line?: Broadcast): Topic {
  const listeners: ((name: string) => void)[] = [];
  const tell = (name: string) => {
    for (const listener of listeners) listener(name);
  };
  line?.onNotification((about, name) => {
    if (about === topic) tell(name);
  });
  return {
    publish: (name) => {
      tell(name);
      line?.notify(topic, name);
    },
    subscribe: (listener) => {
      listeners.push(listener);
    },
  };
}
