import { useState } from 'react';
import { Button } from './button.tsx';

/** Copies a text. Pages without TLS have no clipboard, and show no button. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [isCopied, setCopied] = useState(false);
  if (!navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return <Button onClick={() => void copy()}>{isCopied ? 'Copied' : label}</Button>;
}
