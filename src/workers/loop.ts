/** How long to wait until the next round, unless woken before: a loop that has nothing to do names `forever`. */
export const maxTimerMs = 2 ** 31 - 1;

/** Where there is nothing to do, as far as is known: another process may have stored something. */
export const idleMs = 30_000;

export interface Loop {
  /** Makes the next round start at once, or within this time, or right after the one that is under way. */
  wake(withinMs?: number): void;
  /** Asks the round under way to stop, and waits until it has. */
  stop(): Promise<void>;
}

/**
 * Runs rounds one after the other, never two at a time. A round answers how many milliseconds the next may wait. It is
 * told when it was due itself, by `performance.now()`: a busy process begins it later.
 */
export function startLoop(round: (signal: AbortSignal, dueAt: number) => Promise<number>): Loop {
  const stopping = new AbortController();
  /** When the next round starts, by the clock that nobody sets. */
  let dueAt = performance.now();
  let rearm: (() => void) | undefined;

  const untilDue = () =>
    new Promise<void>((resolve) => {
      let timer: NodeJS.Timeout;
      rearm = () => {
        clearTimeout(timer);
        timer = setTimeout(resolve, Math.min(maxTimerMs, Math.max(0, dueAt - performance.now())));
      };
      rearm();
    });

  const wake = (withinMs = 0) => {
    const at = performance.now() + withinMs;
    if (at >= dueAt) return;
    dueAt = at;
    rearm?.();
  };

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const thisDueAt = dueAt;
      dueAt = Number.POSITIVE_INFINITY;
      rearm = undefined;
      wake(await round(stopping.signal, thisDueAt));
      if (!stopping.signal.aborted) await untilDue();
    }
  }

  const running = run();
  return {
    wake,
    async stop() {
      stopping.abort();
      wake();
      await running;
    },
  };
}
