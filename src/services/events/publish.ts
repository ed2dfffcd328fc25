/**
 * Word that there is something new in the books: for a user, or to do on a system. It is given after the commit, and it
 * is only a hint: who gets it looks into the books, and who misses it looks a little later.
 */
export interface Announcements {
  wake(name: string): void;
  onWake(listener: (name: string) => void): void;
}

/** Where else word is passed on, and comes from: other Bursars on the same books. */
export interface Line {
  send(topic: string, name: string): void;
  onWord(listener: (topic: string, name: string) => void): void;
}

/** Announcements within this process; with a line, to and from the others too. */
export function createAnnouncements(topic: string, line?: Line): Announcements {
  const listeners: ((name: string) => void)[] = [];
  const tell = (name: string) => {
    for (const listener of listeners) listener(name);
  };
  line?.onWord((about, name) => {
    if (about === topic) tell(name);
  });
  return {
    wake: (name) => {
      tell(name);
      line?.send(topic, name);
    },
    onWake: (listener) => {
      listeners.push(listener);
    },
  };
}
