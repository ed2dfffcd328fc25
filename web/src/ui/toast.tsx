import { lazy, Suspense } from 'react';
import { describeError } from './states.tsx';
import { toastManager } from './toast-manager.ts';

const ToastViewport = lazy(() => import('./toast-viewport.tsx'));

/** Short messages in a corner of the page. Screen readers announce them. */
export function Toasts() {
  return (
    <Suspense fallback={null}>
      <ToastViewport />
    </Suspense>
  );
}

/** Shows messages. `fail` shows an error of the client. */
export const toast = {
  show: (title: string, description?: string) => toastManager.add({ title, description }),
  fail: (title: string, error: unknown) =>
    toastManager.add({ title, description: describeError(error).message, priority: 'high', timeout: 12_000 }),
};
