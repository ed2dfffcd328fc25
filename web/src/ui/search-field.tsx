import { useEffect, useRef, useState } from 'react';
import { Field } from './field.tsx';

/** A search begins when the user has stopped typing for this time. */
const pauseMs = 300;

interface SearchFieldProps {
  label: string;
  placeholder?: string;
  /** The text of the current search. */
  value: string;
  onSearch: (text: string) => void;
  /** `/` focuses the first search field of the page. */
  type?: 'search' | 'text';
}

/** A text field that searches while the user types. The Enter key does not wait. */
export function SearchField({ label, placeholder, value, onSearch, type = 'search' }: SearchFieldProps) {
  const [text, setText] = useState(value);
  const searched = useRef(value);
  const search = useRef(onSearch);
  search.current = onSearch;

  // The search was changed elsewhere, such as by the back button.
  useEffect(() => {
    if (value === searched.current) return;
    searched.current = value;
    setText(value);
  }, [value]);

  const start = (wanted: string) => {
    if (wanted === searched.current) return;
    searched.current = wanted;
    search.current(wanted);
  };
  const trimmed = text.trim();
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a changed text starts the timer
  useEffect(() => {
    if (trimmed === searched.current) return;
    const timer = setTimeout(() => start(trimmed), pauseMs);
    return () => clearTimeout(timer);
  }, [trimmed]);

  return (
    <Field label={<span className="visually-hidden">{label}</span>}>
      {(control) => (
        <input
          {...control}
          type={type}
          placeholder={placeholder}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => event.key === 'Enter' && start(trimmed)}
        />
      )}
    </Field>
  );
}
