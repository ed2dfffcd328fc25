import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { Card } from './card.tsx';
import styles from './states.module.css';

/** There is nothing to show, and this is what the user can do. */
export function EmptyState({ title, children, actions }: { title: string; children?: ReactNode; actions?: ReactNode }) {
  return (
    <div className={styles.state}>
      <h2>{title}</h2>
      {children !== undefined && <p className="muted">{children}</p>}
      {actions !== undefined && <div className={styles.actions}>{actions}</div>}
    </div>
  );
}

/** The server's message says what to do. The identifier of the request helps its operators. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { message, requestId, isForbidden } = describeError(error);
  return (
    <div className={styles.state} role="alert">
      <h2>{isForbidden ? 'You may not see this' : 'This could not be loaded'}</h2>
      <p>{message}</p>
      {requestId !== undefined && (
        <p className="muted">
          Request <code>{requestId}</code>
        </p>
      )}
      {onRetry !== undefined && !isForbidden && (
        <div className={styles.actions}>
          <Button onClick={onRetry}>Try again</Button>
        </div>
      )}
    </div>
  );
}

/** The message of an error in a form or a dialog, which stays open. */
export function ErrorMessage({ error }: { error: unknown }) {
  return (
    <p role="alert" className={styles.message}>
      {describeError(error).message}
    </p>
  );
}

/** The message of an error of the client, or of a fault of this page. */
export function describeError(error: unknown): ErrorDescription {
  const { message, code, status, requestId } = Object(error) as Partial<Record<string, string>> & { status?: number };
  if (code === 'server_unreachable') {
    const text = 'The server cannot be reached. Check your connection.';
    return { message: text, requestId: undefined, isForbidden: false };
  }
  return { message: message || 'Something went wrong.', requestId, isForbidden: status === 403 };
}

interface ErrorDescription {
  message: string;
  requestId: string | undefined;
  /** A repetition does not help: the user lacks the right. */
  isForbidden: boolean;
}

/** A grey block that takes the place of what is loading. */
export function Skeleton({ height = '1rem', width = '100%' }: { height?: string; width?: string }) {
  return <span className={styles.skeleton} style={{ height, width }} />;
}

export function SkeletonLines({ count = 6 }: { count?: number }) {
  return (
    <div className={styles.lines} role="status" aria-label="Loading">
      {Array.from({ length: count }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: all lines are alike
        <Skeleton key={index} height="1.5rem" />
      ))}
    </div>
  );
}

interface QueryViewProps<Data> {
  query: UseQueryResult<Data>;
  loading?: ReactNode;
  children: (data: Data) => ReactNode;
}

/** Shows the data of a query, or that it is loading, or why it failed. Old data stays while it is read again. */
export function QueryView<Data>({ query, loading = <SkeletonLines />, children }: QueryViewProps<Data>) {
  if (query.data !== undefined) return children(query.data);
  if (query.isError) {
    return (
      <Card>
        <ErrorState error={query.error} onRetry={() => void query.refetch()} />
      </Card>
    );
  }
  return loading;
}
