import type { BursarEvent } from '@bursar/client';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { applyEvent } from './apply-event.ts';
import { bursar, isSignedOut } from './bursar.ts';
import { keys } from './queries.ts';

export type ConnectionState = 'connecting' | 'live' | 'offline';

type Listener = (event: BursarEvent) => void;
const listeners = new Set<Listener>();

/** Calls the listener with every event that arrives while this page is open. Returns a function that ends it. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A failed first connection is tried again after this time. */
const retryDelayMs = 3000;

/** Keeps the cache of queries up to date from the one event stream of this page. */
export function useLiveEvents(): ConnectionState {
  const queryClient = useQueryClient();
  const [state, setState] = useState<ConnectionState>('connecting');

  useEffect(() => {
    const abort = new AbortController();
    let since: number | undefined;
    const follow = async () => {
      const onConnection = (isConnected: boolean) => setState(isConnected ? 'live' : 'offline');
      for await (const event of bursar.events({ since, signal: abort.signal, onConnection })) {
        since = event.id;
        applyEvent(queryClient, event);
        for (const listener of listeners) listener(event);
      }
    };
    const run = async () => {
      while (!abort.signal.aborted) {
        try {
          await follow();
        } catch (error) {
          if (abort.signal.aborted) return;
          setState('offline');
          if (isSignedOut(error)) await queryClient.invalidateQueries({ queryKey: keys.me });
          // Events may have been missed: everything is read again.
          since = undefined;
          await new Promise((resolve) => setTimeout(resolve, retryDelayMs));
          void queryClient.invalidateQueries();
        }
      }
    };
    void run();
    return () => abort.abort();
  }, [queryClient]);

  return state;
}
