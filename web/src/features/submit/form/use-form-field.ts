import { useState } from 'react';
import type { FieldErrors } from '../../../shared/field-errors.ts';
import { toSentence } from './check-values.ts';

/** Returns the error and the blur handler of a field, by its name in the API. */
export type FormField = (name: string, value: string) => { error: string | undefined; onBlur: () => void };

/** Errors show when a field has a value, or has been left: an empty form is not full of errors. */
export function useFormField(errors: FieldErrors): FormField {
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  return (name, value) => {
    const message = errors[name];
    const isShown = message !== undefined && (value.trim() !== '' || touched.has(name));
    return {
      error: isShown ? toSentence(message) : undefined,
      onBlur: () => setTouched((names) => (names.has(name) ? names : new Set([...names, name]))),
    };
  };
}
