import { PageHeader } from '../../ui/card.tsx';

export function AllJobsPage() {
  return <PageHeader title="All jobs" />;
}
