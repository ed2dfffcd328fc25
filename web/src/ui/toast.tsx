import { lazy, Suspense, useSyncExternalStore } from 'react';
import { describeError } from './states.tsx';
import { toastManager } from './toast-manager.ts';

const ToastViewport = lazy(() => import('./toast-viewport.tsx'));

/** The code that shows messages is loaded with the first one: most visits have none. */
let isNeeded = false;
let onNeeded = () => {};
const mounted = Promise.withResolvers<void>();

const subscribe = (listener: () => void) => {
  onNeeded = listener;
  return () => {
    onNeeded = () => {};
  };
};

/** Short messages in a corner of the page. Screen readers announce them. */
export function Toasts() {
  const shows = useSyncExternalStore(subscribe, () => isNeeded);
  if (!shows) return null;
  return (
    <Suspense fallback={null}>
      <ToastViewport onMount={mounted.resolve} />
    </Suspense>
  );
}

function add(options: Parameters<typeof toastManager.add>[0]): void {
  isNeeded = true;
  onNeeded();
  void mounted.promise.then(() => toastManager.add(options));
}

/** Shows messages. `fail` shows an error of the client. */
export const toast = {
  show: (title: string, description?: string) => add({ title, description }),
  fail: (title: string, error: unknown) =>
    add({ title, description: describeError(error).message, priority: 'high', timeout: 12_000 }),
};
