import { setTimeout as sleep } from 'node:timers/promises';

interface Run<Request, Result> {
  requests: Request[];
  signals: AbortSignal[];
  result: Promise<Result>;
}

/**
 * Batches concurrent calls into one run of `work`, and never runs two at a time. A call that arrives during a run joins
 * the next run, so every result was computed after its call was made. All calls of one run share its result or error.
 * The run is aborted when the signals of all its calls are: one caller who gives up does not fail the others. Runs start
 * at least `minIntervalMs` apart.
 */
export function coalesce<Request, Result>(
  work: (requests: Request[], signal: AbortSignal) => Promise<Result>,
  minIntervalMs = 0,
): (request: Request, signal?: AbortSignal) => Promise<Result> {
  let lastRun: Promise<unknown> = Promise.resolve();
  let nextRun: Run<Request, Result> | undefined;

  return (request, signal = new AbortController().signal) => {
    if (nextRun !== undefined) {
      nextRun.requests.push(request);
      nextRun.signals.push(signal);
      return nextRun.result;
    }
    const [requests, signals] = [[request], [signal]];
    let interval: Promise<void> | undefined;
    const result = lastRun.then(() => {
      nextRun = undefined;
      if (minIntervalMs > 0) interval = sleep(minIntervalMs);
      return withCommonSignal(signals, (common) => work(requests, common));
    });
    nextRun = { requests, signals, result };
    lastRun = result.catch(() => undefined).then(() => interval);
    return result;
  };
}

/** Passes a signal to `work` that is aborted when all of the signals are. */
async function withCommonSignal<T>(
  signals: readonly AbortSignal[],
  work: (common: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const abortIfAll = () => {
    if (signals.every(({ aborted }) => aborted)) controller.abort(signals[0]?.reason);
  };
  for (const signal of signals) signal.addEventListener('abort', abortIfAll);
  abortIfAll();
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of signals) signal.removeEventListener('abort', abortIfAll);
  }
}
