import { ApiError, ConnectionError } from './errors.ts';

const baseDelayMs = 250;
const maxDelayMs = 15_000;
/** A longer Retry-After is for the caller to decide. */
const maxRetryAfterSeconds = 60;

const transientStatuses = [429, 502, 503, 504];
/** They last until somebody acts: the user's jobs end, an operator resumes the system, or finds the files. */
const lastingCodes = ['too_many_jobs', 'too_many_listeners', 'system_paused', 'files_missing'];

/** Whether a repetition may succeed. Whether it is safe depends on the request. */
export function shouldRetry(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  if (!(error instanceof ApiError) || (error.retryAfterSeconds ?? 0) > maxRetryAfterSeconds) return false;
  // The server has not noticed yet that the first attempt was cut off.
  if (error.code === 'idempotency_key_in_use') return true;
  return transientStatuses.includes(error.status) && !lastingCodes.includes(error.code);
}

/** Doubles with every repetition. Half of it is random, so that clients that failed together do not come back together. */
export function retryDelayMs(error: unknown, repetition: number): number {
  const backoffMs = Math.min(maxDelayMs, baseDelayMs * 2 ** repetition) * (0.5 + Math.random() / 2);
  const retryAfterSeconds = error instanceof ApiError ? error.retryAfterSeconds : undefined;
  return retryAfterSeconds === undefined ? backoffMs : retryAfterSeconds * 1000 + Math.random() * baseDelayMs;
}

/** Rejects with the reason of the signal when it is aborted. */
export function sleep(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
