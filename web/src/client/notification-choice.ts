import { useSyncExternalStore } from 'react';

/** Which ends of jobs the browser shows as a notification. */
export type NotificationChoice = 'none' | 'failed' | 'all';

const storageKey = 'bursar.notifications';
const choices: readonly NotificationChoice[] = ['none', 'failed', 'all'];
const listeners = new Set<() => void>();

export function readNotificationChoice(): NotificationChoice {
  const stored = localStorage.getItem(storageKey);
  return choices.find((choice) => choice === stored) ?? 'none';
}

/** Keeps the choice in this browser, for all its tabs. */
export function storeNotificationChoice(choice: NotificationChoice): void {
  localStorage.setItem(storageKey, choice);
  for (const listener of listeners) listener();
}

export function useNotificationChoice(): NotificationChoice {
  return useSyncExternalStore(subscribe, readNotificationChoice);
}

/** `storage` reports the changes of other tabs only. */
function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener('storage', listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener('storage', listener);
  };
}

/** Browsers show notifications only for pages with TLS, or of this host. */
export const canNotify = () => window.isSecureContext && 'Notification' in window;

/** Whether the end of a job would be shown now. */
export const areNotificationsOn = () =>
  readNotificationChoice() !== 'none' && canNotify() && Notification.permission === 'granted';
