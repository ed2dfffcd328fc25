/**
 * Batches concurrent calls into one run of `work`, and never runs two at a time. A call that arrives during a run joins
 * the next run, so every result was computed after its call was made. All calls of one run share its result or error.
 * The run uses the AbortSignal of the first of its calls.
 */
export function coalesce<Request, Result>(
  work: (requests: Request[], signal: AbortSignal) => Promise<Result>,
): (request: Request, signal: AbortSignal) => Promise<Result> {
  let lastRun: Promise<unknown> = Promise.resolve();
  let nextRun: { requests: Request[]; result: Promise<Result> } | undefined;

  return (request, signal) => {
    if (nextRun !== undefined) {
      nextRun.requests.push(request);
      return nextRun.result;
    }
    const requests = [request];
    const result = lastRun.then(() => {
      nextRun = undefined;
      return work(requests, signal);
    });
    nextRun = { requests, result };
    lastRun = result.catch(() => undefined);
    return result;
  };
}
