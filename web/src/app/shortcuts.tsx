import { useNavigate } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { Dialog } from '../ui/dialog.tsx';
import type { adminPagesOf, pages as allUsersPages } from './pages.ts';
import styles from './shell.module.css';

/** A key after `g` must follow within this time. */
const sequenceMs = 1500;

type Page = (typeof allUsersPages)[number] | ReturnType<typeof adminPagesOf>[number];

/** The keys of the page: `/` to search, `g` and a letter to open a page, `?` for this list. */
export function Shortcuts({ pages }: { pages: readonly Page[] }) {
  const navigate = useNavigate();
  const [isHelpOpen, setHelpOpen] = useState(false);

  useEffect(() => {
    let startedAt = Number.NEGATIVE_INFINITY;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const isSecond = performance.now() - startedAt < sequenceMs;
      startedAt = Number.NEGATIVE_INFINITY;
      if (isSecond) {
        const target = pages.find(({ key }) => key === event.key);
        if (target === undefined) return;
        event.preventDefault();
        void navigate({ to: target.to });
      } else if (event.key === 'g') {
        startedAt = performance.now();
      } else if (event.key === '/') {
        const search = document.querySelector<HTMLInputElement>('input[type="search"]');
        if (search === null) return;
        event.preventDefault();
        search.focus();
      } else if (event.key === '?') {
        setHelpOpen(true);
      }
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, [navigate, pages]);

  return (
    <Dialog title="Keys" isOpen={isHelpOpen} onClose={() => setHelpOpen(false)}>
      <dl className={styles.keys}>
        <Row keys={['/']} text="Search" />
        <Row keys={['?']} text="Show this list" />
        {pages.map(({ key, title }) => (
          <Row key={title} keys={['g', key]} text={title} />
        ))}
      </dl>
    </Dialog>
  );
}

function Row({ keys, text }: { keys: readonly string[]; text: string }) {
  return (
    <>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{text}</dd>
    </>
  );
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName);
}
