import { PageHeader } from '../../ui/card.tsx';

export function LedgerPage() {
  return <PageHeader title="Ledger" />;
}
