import { PageHeader } from '../../ui/card.tsx';

export function SystemsPage() {
  return <PageHeader title="Systems" />;
}
