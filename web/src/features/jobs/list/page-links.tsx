import { useRouterState } from '@tanstack/react-router';
import type { JobPageFilter } from '../../../client/job-pages.ts';
import { buttonClass } from '../../../ui/button.tsx';
import { Link } from '../../../ui/link.tsx';
import type { ListRoute } from './list-route.ts';
import styles from './page-links.module.css';

declare module '@tanstack/react-router' {
  interface HistoryState {
    /** The cursors of the newer pages on the way to this one. The first page has none: ''. */
    newerCursors?: readonly string[] | undefined;
  }
}

interface PageLinksProps {
  route: ListRoute;
  filter: JobPageFilter;
  next: string | null;
}

/** Links to the newer and the older page. The server knows only the way to older jobs: the way back is in the history. */
export function PageLinks({ route, filter, next }: PageLinksProps) {
  const { cursor } = filter;
  const newerCursors = useRouterState({ select: ({ location }) => location.state.newerCursors }) ?? [];
  if (cursor === undefined && next === null) return null;
  const isKnown = newerCursors.length > 0;
  return (
    <nav className={styles.pages} aria-label="Newer and older jobs">
      {cursor !== undefined && (
        <Link
          to={route}
          search={{ ...filter, cursor: newerCursors.at(-1) || undefined }}
          state={{ newerCursors: newerCursors.slice(0, -1) }}
          className={buttonClass()}
        >
          {isKnown ? '← Newer' : '← Newest'}
        </Link>
      )}
      {(cursor === undefined || isKnown) && <span className="muted">Page {newerCursors.length + 1}</span>}
      {next !== null && (
        <Link
          to={route}
          search={{ ...filter, cursor: next }}
          state={{ newerCursors: [...newerCursors, cursor ?? ''] }}
          className={buttonClass()}
        >
          Older →
        </Link>
      )}
    </nav>
  );
}
