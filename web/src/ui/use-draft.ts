import { useEffect, useState } from 'react';

/** State that survives a reload of the tab, such as that of a form while the user signs in again. */
export function useDraft<Value extends object>(key: string, initial: Value): [Value, (value: Value) => void, () => void] {
  const [value, setValue] = useState<Value>(() => {
    const stored = sessionStorage.getItem(key);
    // A draft of an earlier version of the page may lack fields.
    return stored === null ? initial : { ...initial, ...(JSON.parse(stored) as Partial<Value>) };
  });
  useEffect(() => {
    if (value === initial) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify(value));
  }, [key, value, initial]);
  return [value, setValue, () => setValue(initial)];
}
