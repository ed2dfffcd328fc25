import { PageHeader } from '../../ui/card.tsx';

export function StatementPage() {
  return <PageHeader title="Statement" />;
}
