import { PageHeader } from '../../ui/card.tsx';

export function UserPage() {
  return <PageHeader title="User" />;
}
