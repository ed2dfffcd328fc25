import { PageHeader } from '../../ui/card.tsx';

export function UsersPage() {
  return <PageHeader title="Users" />;
}
