import { PageHeader } from '../../ui/card.tsx';

export function UsagePage() {
  return <PageHeader title="Usage" />;
}
