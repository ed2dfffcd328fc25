/** How long to wait until the next round, unless woken before: a loop that has nothing to do names `forever`. */
export const forever = 2 ** 31 - 1;

export interface Loop {
  /** Makes the next round start at once, or right after the one that is under way. */
  wake(): void;
  /** Asks the round under way to stop, and waits until it has. */
  stop(): Promise<void>;
}

/** Runs rounds one after the other, never two at a time. A round answers how many milliseconds the next may wait. */
export function startLoop(round: (signal: AbortSignal) => Promise<number>): Loop {
  const stopping = new AbortController();
  let woken = false;
  let endWait: (() => void) | undefined;

  const wait = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.min(ms, forever));
      endWait = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      woken = false;
      const waitMs = await round(stopping.signal);
      if (!woken && !stopping.signal.aborted) await wait(waitMs);
    }
  }

  const running = run();
  const wake = () => {
    woken = true;
    endWait?.();
  };
  return {
    wake,
    async stop() {
      stopping.abort();
      wake();
      await running;
    },
  };
}
