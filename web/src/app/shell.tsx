import type { Me } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { Outlet } from '@tanstack/react-router';
import { Suspense, useMemo } from 'react';
import { bursar, isSignedOut } from '../client/bursar.ts';
import { firstPositionQuery, meQuery } from '../client/queries.ts';
import { type ConnectionState, useLiveEvents } from '../client/use-live-events.ts';
import { Button } from '../ui/button.tsx';
import { Link } from '../ui/link.tsx';
import { SkeletonLines } from '../ui/states.tsx';
import { toast } from '../ui/toast.tsx';
import { adminPagesOf, pages } from './pages.ts';
import { SessionEndNotice } from './session.tsx';
import styles from './shell.module.css';
import { Shortcuts } from './shortcuts.tsx';
import { useNotifications } from './use-notifications.ts';

/** The frame of every page. `SessionGate` has read the user and the position before. */
export function Shell() {
  const { data: me } = useQuery(meQuery);
  const { data: position } = useQuery(firstPositionQuery);
  if (me === undefined || position === undefined) return null;
  return <Frame me={me} position={position} />;
}

/** The navigation, the state of the connection, and the user. */
function Frame({ me, position }: { me: Me; position: number }) {
  const connection = useLiveEvents(position);
  useNotifications();
  const adminPages = useMemo(() => adminPagesOf(me), [me]);
  const allPages = useMemo(() => [...pages, ...adminPages], [adminPages]);
  return (
    <div className={styles.shell}>
      <a className={styles.skip} href="#content">
        Skip to the content
      </a>
      <header className={styles.header}>
        <Link to="/jobs" className={styles.brand}>
          Bursar
        </Link>
        <nav className={styles.nav} aria-label="Pages">
          {pages.map(({ to, title }) => (
            <Link key={to} to={to} activeOptions={{ exact: false }}>
              {title}
            </Link>
          ))}
        </nav>
        <div className={styles.user}>
          <ConnectionNotice state={connection} />
          <span title={me.mail ?? undefined}>{me.name ?? `User ${me.user}`}</span>
          <Button variant="quiet" onClick={() => void signOut()}>
            Sign out
          </Button>
        </div>
      </header>
      {adminPages.length > 0 && (
        <nav className={styles.adminNav} aria-label="Administration">
          <span className="muted">Administration</span>
          {adminPages.map(({ to, title }) => (
            <Link key={to} to={to} activeOptions={{ exact: false }}>
              {title}
            </Link>
          ))}
        </nav>
      )}
      <SessionEndNotice expiresAt={me.expires_at} />
      <main id="content" className={styles.main} tabIndex={-1}>
        <Suspense fallback={<SkeletonLines />}>
          <Outlet />
        </Suspense>
      </main>
      <Shortcuts pages={allPages} />
    </div>
  );
}

async function signOut(): Promise<void> {
  try {
    const { sign_out_url: providerPage } = await bursar.api.signOut();
    location.assign(providerPage ?? '/app/');
  } catch (error) {
    if (isSignedOut(error)) location.assign('/app/');
    else toast.fail('You are still signed in', error);
  }
}

const connectionTexts: Record<ConnectionState, string> = {
  connecting: 'Connecting…',
  live: 'Live',
  offline: 'Offline: trying again',
};

function ConnectionNotice({ state }: { state: ConnectionState }) {
  return (
    <span className={styles.connection} data-state={state} role="status">
      {connectionTexts[state]}
    </span>
  );
}
