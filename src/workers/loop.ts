import type { Logger as PinoLogger } from 'pino';

export type Logger = Pick<PinoLogger, 'info' | 'warn' | 'error'>;

/** The longest delay that setTimeout accepts. A loop that has nothing to do returns it, and waits for `wake`. */
export const maxTimerMs = 2 ** 31 - 1;

/** Poll interval of a loop without known work: another process may have stored some. */
export const idleIntervalMs = 30_000;

export interface Loop {
  /** Starts the next iteration within this time, or right after the current one. */
  wake(withinMs?: number): void;
  /** Aborts the signal of the current iteration, and waits for its end. */
  stop(): Promise<void>;
}

/**
 * Runs iterations one after the other, never two at a time. An iteration returns the maximum delay until the next one, in
 * milliseconds. `dueAt`, by `performance.now()`, is when the iteration should have started: a busy process starts it later.
 */
export function startLoop(iterate: (signal: AbortSignal, dueAt: number) => Promise<number>): Loop {
  const stopping = new AbortController();
  /** Start of the next iteration, by the monotonic clock. */
  let nextDueAt = performance.now();
  let rearmTimer: (() => void) | undefined;

  const waitUntilDue = () =>
    new Promise<void>((resolve) => {
      let timer: NodeJS.Timeout;
      rearmTimer = () => {
        clearTimeout(timer);
        timer = setTimeout(resolve, Math.min(maxTimerMs, Math.max(0, nextDueAt - performance.now())));
      };
      rearmTimer();
    });

  const wake = (withinMs = 0) => {
    const at = performance.now() + withinMs;
    if (at >= nextDueAt) return;
    nextDueAt = at;
    rearmTimer?.();
  };

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const dueAt = nextDueAt;
      nextDueAt = Number.POSITIVE_INFINITY;
      rearmTimer = undefined;
      wake(await iterate(stopping.signal, dueAt));
      if (!stopping.signal.aborted) await waitUntilDue();
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
