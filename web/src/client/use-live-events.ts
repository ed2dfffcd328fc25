import type { BursarEvent } from '@bursar/client';
import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { createEventHandler } from './apply-event.ts';
import { bursar, isSignedOut } from './bursar.ts';
import { areNotificationsOn } from './notification-choice.ts';
import { keys, readLatestPosition } from './queries.ts';
import { isSessionEnded, untilSignedIn } from './session-end.ts';
import { hiddenLimitMs, untilShown, whenHiddenFor } from './tab-visibility.ts';

export type ConnectionState = 'connecting' | 'live' | 'offline';

type Listener = (event: BursarEvent) => void;
const listeners = new Set<Listener>();

/** Calls the listener with every event that arrives while this page is open. Returns a function that ends it. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** After an error that the client does not try again by itself. */
const retryDelayMs = 3000;

/**
 * Keeps the cache of queries up to date from the one event stream of this page. The first position must be known before any
 * other query is sent: a change between the two would be missed.
 */
export function useLiveEvents(firstPosition: number): ConnectionState {
  const queryClient = useQueryClient();
  const [state, setState] = useState<ConnectionState>('connecting');
  const [start] = useState(firstPosition);
  useEffect(() => {
    const stop = new AbortController();
    keepFollowing(queryClient, start, stop.signal, setState).catch(() => undefined);
    return () => stop.abort();
  }, [queryClient, start]);
  return state;
}

/** Follows the events until the signal is aborted. */
async function keepFollowing(
  queryClient: QueryClient,
  firstPosition: number,
  stopped: AbortSignal,
  onState: (state: ConnectionState) => void,
): Promise<void> {
  const applyEvent = createEventHandler(queryClient);
  let position: number | undefined = firstPosition;
  while (!stopped.aborted) {
    const hidden = new AbortController();
    // A tab that has to notify the user keeps its stream.
    const stopWatching = whenHiddenFor(hiddenLimitMs, () => {
      if (!areNotificationsOn()) hidden.abort();
    });
    const signal = AbortSignal.any([stopped, hidden.signal]);
    try {
      if (position === undefined) {
        position = await readLatestPosition(signal);
        // Events were missed, so everything is read again: after the position is known, so that no change lies between.
        void queryClient.invalidateQueries();
      }
      const onConnection = (isConnected: boolean) => onState(isConnected ? 'live' : 'offline');
      for await (const event of bursar.events({ since: position, signal, onConnection })) {
        position = event.id;
        applyEvent(event);
        for (const listener of listeners) listener(event);
      }
    } catch (error) {
      if (stopped.aborted) return;
      if (!hidden.signal.aborted) {
        onState('offline');
        if (isSignedOut(error)) await queryClient.invalidateQueries({ queryKey: keys.me });
        position = undefined;
        if (isSessionEnded(queryClient)) await untilSignedIn(queryClient, stopped);
        else await new Promise((resolve) => setTimeout(resolve, retryDelayMs));
      }
    } finally {
      stopWatching();
    }
    if (hidden.signal.aborted) {
      await untilShown(stopped);
      onState('connecting');
    }
  }
}
