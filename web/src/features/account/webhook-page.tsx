import { PageHeader } from '../../ui/card.tsx';

export function WebhookPage() {
  return <PageHeader title="Webhook" />;
}
