import { PageHeader } from '../../ui/card.tsx';

export function AdminSystemsPage() {
  return <PageHeader title="Systems" />;
}
