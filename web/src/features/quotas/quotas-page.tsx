import { PageHeader } from '../../ui/card.tsx';

export function QuotasPage() {
  return <PageHeader title="Quotas" />;
}
