import { PageHeader } from '../../ui/card.tsx';

export function AccountPage() {
  return <PageHeader title="Account" />;
}
