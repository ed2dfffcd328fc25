import { PageHeader } from '../../ui/card.tsx';

export function AuditPage() {
  return <PageHeader title="Audit" />;
}
