import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useEffectEvent, useRef } from 'react';
import { isSignedOut } from '../client/bursar.ts';
import { firstPositionQuery, meQuery } from '../client/queries.ts';
import { formatCount } from '../ui/format.ts';
import { ErrorState, SkeletonLines } from '../ui/states.tsx';
import { useNow } from '../ui/time.tsx';
import styles from './session.module.css';
import { SessionEnded, SignIn } from './sign-in.tsx';

/**
 * Shows the page to a signed-in user. When the session ends, the page stays behind a dialog: what was typed is kept, and
 * the user signs in again in another tab.
 */
export function SessionGate({ children }: { children: ReactNode }) {
  const me = useQuery(meQuery);
  // Read beside it, before the pages read their data.
  const position = useQuery(firstPositionQuery);
  useSharedSignIn(me.data?.user, () => void Promise.all([me.refetch(), position.refetch()]));
  const isOut = me.isError && isSignedOut(me.error);

  if (me.data === undefined || position.data === undefined) {
    if (isOut) return <SignIn />;
    const failed = [me, position].find(({ isError }) => isError);
    if (failed) return <ErrorState error={failed.error} onRetry={() => void failed.refetch()} />;
    return (
      <div className={styles.loading}>
        <SkeletonLines />
      </div>
    );
  }
  return (
    <>
      {children}
      {isOut && <SessionEnded user={me.data.user} />}
    </>
  );
}

const channelName = 'bursar-session';

/**
 * All tabs share one session. A tab whose user has signed in tells the others, so that those whose session had ended go on. If it
 * is another user, the page starts again: it must not mix the data of two users.
 */
function useSharedSignIn(user: string | undefined, refetch: () => void): void {
  const firstUser = useRef(user);
  const onSignIn = useEffectEvent(refetch);
  useEffect(() => {
    const channel = new BroadcastChannel(channelName);
    channel.onmessage = () => onSignIn();
    return () => channel.close();
  }, []);
  useEffect(() => {
    if (user === undefined) return;
    firstUser.current ??= user;
    if (firstUser.current !== user) location.reload();
    const channel = new BroadcastChannel(channelName);
    channel.postMessage('signed in');
    channel.close();
  }, [user]);
}

const warningMs = 10 * 60_000;

/** Says that the session will end soon. */
export function SessionEndNotice({ expiresAt }: { expiresAt: string | null }) {
  const now = useNow(15_000);
  if (expiresAt === null) return null;
  const leftMs = Date.parse(expiresAt) - now;
  if (leftMs > warningMs || leftMs < 0) return null;
  const minutes = Math.max(1, Math.round(leftMs / 60_000));
  return (
    <p className={styles.notice} role="status">
      Your session ends in {formatCount(minutes, 'minute')}. What you type on this page is kept.{' '}
      <a href="/sign-in/" target="_blank" rel="noreferrer">
        Sign in again in a new tab
      </a>
    </p>
  );
}
