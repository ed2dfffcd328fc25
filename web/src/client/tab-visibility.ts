/**
 * Browsers allow six connections to a host over HTTP/1.1, for all tabs together. So a hidden tab closes its streams after this
 * time. When it is shown again, it goes on where it was.
 */
export const hiddenLimitMs = 60_000;

const isShown = () => document.visibilityState === 'visible';

/** Resolves when the tab is shown, at once if it is. Rejects when the signal is aborted. */
export function untilShown(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    if (isShown()) return resolve();
    const listening = new AbortController();
    const onChange = () => {
      if (!isShown()) return;
      listening.abort();
      resolve();
    };
    document.addEventListener('visibilitychange', onChange, { signal: listening.signal });
    signal.addEventListener(
      'abort',
      () => {
        listening.abort();
        reject(signal.reason);
      },
      { signal: listening.signal },
    );
  });
}

/** Calls `onHidden` each time the tab has been hidden for this long. Returns a function that ends it. */
export function whenHiddenFor(durationMs: number, onHidden: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onChange = () => {
    clearTimeout(timer);
    timer = isShown() ? undefined : setTimeout(onHidden, durationMs);
  };
  onChange();
  document.addEventListener('visibilitychange', onChange);
  return () => {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', onChange);
  };
}
