import type { QueryClient } from '@tanstack/react-query';
import { isSignedOut } from './bursar.ts';
import { keys } from './queries.ts';

/** Whether the last answer about the user was that nobody is signed in. */
export function isSessionEnded(queryClient: QueryClient): boolean {
  const state = queryClient.getQueryState(keys.me);
  return state?.status === 'error' && isSignedOut(state.error);
}

/**
 * Resolves when the user has signed in again. Sends nothing: the user is read when the tab gets the focus, and when another tab
 * has signed in. A tab that was left open for days must not ask the server every few seconds.
 */
export function untilSignedIn(queryClient: QueryClient, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const unsubscribe = queryClient.getQueryCache().subscribe(() => {
      if (isSessionEnded(queryClient)) return;
      stop();
      resolve();
    });
    const onAbort = () => {
      stop();
      reject(signal.reason);
    };
    const stop = () => {
      unsubscribe();
      signal.removeEventListener('abort', onAbort);
    };
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
  });
}
