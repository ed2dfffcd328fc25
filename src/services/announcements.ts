/**
 * Word that there is something new for a user in the books. It is given after the commit, and it is only a hint: who gets
 * it looks into the books, and who misses it looks a little later. So another process can pass its own on by any means.
 */
export interface Announcements {
  wake(userId: string): void;
  onWake(listener: (userId: string) => void): void;
}

export function createAnnouncements(): Announcements {
  const listeners: ((userId: string) => void)[] = [];
  return {
    wake: (userId) => {
      for (const listener of listeners) listener(userId);
    },
    onWake: (listener) => {
      listeners.push(listener);
    },
  };
}
