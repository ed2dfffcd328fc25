import type { ErrorComponentProps } from '@tanstack/react-router';
import { Link } from '../ui/link.tsx';
import { EmptyState, ErrorState } from '../ui/states.tsx';

export function NotFound() {
  return <EmptyState title="There is no such page" actions={<Link to="/jobs">Go to your jobs</Link>} />;
}

/** A fault of the page itself, or a part of it that could not be loaded, such as after an upgrade of the server. */
export function RouteError({ error }: ErrorComponentProps) {
  return <ErrorState error={error} onRetry={() => location.reload()} />;
}
