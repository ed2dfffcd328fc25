import type { Webhook } from '#client';
import type { Context } from '../context.ts';
import { webhookColumns } from '../events/webhooks.ts';

export async function list(context: Context, { user }: { user?: string }): Promise<void> {
  const { api } = await context.client();
  const { signal } = context;
  const webhooks =
    user === undefined
      ? await api.listWebhooksOfAllUsers({ signal })
      : await api.listWebhooksOfUser({ path: { user_id: user }, signal });
  await context.printTable(webhooks, webhookColumns(context, { user: true }), 'There are no webhooks.');
}

interface WebhookOptions {
  user: string;
  id: string;
  reason: string;
}

export async function disable(context: Context, { user, id, reason }: WebhookOptions): Promise<void> {
  const { api } = await context.client();
  const path = { user_id: user, webhook_id: id };
  await report(context, await api.disableWebhook({ path, body: { reason }, signal: context.signal }));
}

export async function enable(context: Context, { user, id, reason }: WebhookOptions): Promise<void> {
  const { api } = await context.client();
  const path = { user_id: user, webhook_id: id };
  await report(context, await api.enableWebhook({ path, body: { reason }, signal: context.signal }));
}

async function report(context: Context, webhook: Webhook): Promise<void> {
  if (context.options.json) return await context.printJson(webhook);
  context.note(`Webhook ${webhook.id} of ${webhook.user} is ${webhook.active ? 'active' : 'disabled'}.`);
}
