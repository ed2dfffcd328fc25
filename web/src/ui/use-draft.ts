import { useEffect, useState } from 'react';

/**
 * State that survives a reload of the tab, such as that of a form while the user signs in again. The key must name the user: the
 * next one who signs in here must not see it.
 */
export function useDraft<Value extends object>(
  key: string,
  initial: Value,
): [Value, (value: Value) => void, () => void] {
  const [value, setValue] = useState<Value>(() => readDraft(key, initial));
  useEffect(() => {
    if (value === initial) sessionStorage.removeItem(key);
    else storeDraft(key, value);
  }, [key, value, initial]);
  return [value, setValue, () => setValue(initial)];
}

/** A draft of an older version of the page may lack some fields. */
function readDraft<Value extends object>(key: string, initial: Value): Value {
  try {
    const stored = sessionStorage.getItem(key);
    return stored === null ? initial : { ...initial, ...JSON.parse(stored) };
  } catch {
    return initial;
  }
}

/** Browsers store a few megabytes. A longer text stays in the form, but does not survive a reload. */
function storeDraft(key: string, value: object): void {
  try {
    sessionStorage.setItem(key, JSON.stringify(value));
  } catch {
    sessionStorage.removeItem(key);
  }
}
