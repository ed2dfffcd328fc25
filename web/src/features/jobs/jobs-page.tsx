import { PageHeader } from '../../ui/card.tsx';

export function JobsPage() {
  return <PageHeader title="Jobs" />;
}
