import type { Webhook } from '@bursar/client';
import { Badge } from '../../ui/badge.tsx';

/** Whether a webhook works, as a word. */
export function WebhookState({ webhook }: { webhook: Webhook }) {
  if (!webhook.active) return <Badge tone="bad">Disabled</Badge>;
  if (webhook.failing_since !== null) return <Badge tone="warning">Failing</Badge>;
  return <Badge tone="good">Active</Badge>;
}
