import type { JobPageFilter } from '../../../client/job-pages.ts';
import { buttonClass } from '../../../ui/button.tsx';
import { Card } from '../../../ui/card.tsx';
import { Link } from '../../../ui/link.tsx';
import { EmptyState } from '../../../ui/states.tsx';
import type { ListRoute } from './list-route.ts';

/** There are no jobs to show: because of the filters, because the page is past the last job, or because there are none. */
export function EmptyJobList({ route, filter }: { route: ListRoute; filter: JobPageFilter }) {
  const { cursor, ...filters } = filter;
  const clear = (text: string, search: JobPageFilter) => (
    <Link to={route} search={search} className={buttonClass()}>
      {text}
    </Link>
  );
  if (cursor !== undefined) return toCard('No older jobs', undefined, clear('Show the newest jobs', filters));
  if (Object.values(filters).some((value) => value !== undefined)) {
    return toCard('No job matches', 'Try other words, or fewer filters.', clear('Clear all filters', {}));
  }
  if (route === '/admin/jobs') return toCard('No jobs yet', 'Nobody has submitted a job.');
  return toCard(
    'No jobs yet',
    'Submit your first job here, or from a terminal.',
    <>
      <Link to="/submit" className={buttonClass('primary')}>
        Submit a job
      </Link>
      <a href="/clients/" className={buttonClass()}>
        Command line and Python
      </a>
    </>,
  );
}

const toCard = (title: string, text: string | undefined, actions?: React.ReactNode) => (
  <Card>
    <EmptyState title={title} actions={actions}>
      {text}
    </EmptyState>
  </Card>
);
