import { PageHeader } from '../../ui/card.tsx';

export function JobPage() {
  return <PageHeader title="Job" />;
}
