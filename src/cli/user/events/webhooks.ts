import type { Delivery, Webhook, WebhookWithSecret } from '#client';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { parseCount } from '../parse-options.ts';
import type { Colour } from '../terminal/style.ts';
import type { Column } from '../terminal/table.ts';
import { relativeTime } from '../terminal/time.ts';

type EventTypes = Webhook['events'];
interface WebhookId {
  id: string;
}

export async function list(context: Context): Promise<void> {
  const { api } = await context.client();
  const webhooks = await api.listWebhooks({ signal: context.signal });
  await context.printTable(webhooks, webhookColumns(context), 'You have no webhooks.');
}

export function webhookColumns({ now }: Context, options: { user?: boolean } = {}): Column<Webhook>[] {
  return [
    { title: 'Id', value: ({ id }) => String(id), align: 'right' },
    ...(options.user ? [{ title: 'User', value: ({ user }: Webhook) => user }] : []),
    { title: 'URL', value: ({ url }) => url, flexible: true },
    { title: 'Events', value: ({ events }) => events.join(' '), flexible: true },
    { title: 'State', value: stateOf, colour: stateColour },
    {
      title: 'Failing since',
      value: ({ failing_since: at }) => (at === null ? '' : relativeTime(at, now())),
      plain: ({ failing_since: at }) => at ?? '',
    },
    { title: 'Description', value: ({ description }) => description, flexible: true },
  ];
}

function stateOf({ active, disabled_by: by }: Webhook): string {
  if (active) return 'active';
  return by === null ? 'disabled' : `disabled by ${by}`;
}

function stateColour({ active, failing_since: failing }: Webhook): Colour {
  if (!active) return 'red';
  return failing === null ? 'green' : 'yellow';
}

export async function show(context: Context, { id }: WebhookId): Promise<void> {
  const { api } = await context.client();
  await printWebhook(context, await api.getWebhook({ path: { webhook_id: id }, signal: context.signal }));
}

async function printWebhook(context: Context, webhook: Webhook): Promise<void> {
  if (context.options.json) return await context.printJson(webhook);
  const fields = Object.entries({ ...webhook, events: webhook.events.join(' ') });
  await context.printFields(fields.map(([name, value]) => [name.replaceAll('_', ' '), String(value ?? '')] as const));
}

/** The secret is shown once: on standard output, so that a script can store it. */
async function printSecret(context: Context, webhook: WebhookWithSecret): Promise<void> {
  if (context.options.json) return await context.printJson(webhook);
  await context.print(`${webhook.secret}\n`);
  context.note(`This secret signs the deliveries of webhook ${webhook.id}. It is not shown again.`);
}

interface WebhookFields {
  url?: string;
  events?: string;
  description?: string;
}

function toBody({ url, events, description }: WebhookFields) {
  return {
    ...(url === undefined ? {} : { url }),
    // The server checks the types, and lists the known ones.
    ...(events === undefined ? {} : { events: events.split(/[\s,]+/).filter(Boolean) as EventTypes }),
    ...(description === undefined ? {} : { description }),
  };
}

export async function create(context: Context, { url, ...fields }: WebhookFields & { url: string }): Promise<void> {
  const { api } = await context.client();
  const { events = ['*'], ...rest } = toBody(fields);
  await printSecret(context, await api.createWebhook({ body: { ...rest, url, events }, signal: context.signal }));
}

interface ChangeOptions extends WebhookId, WebhookFields {
  enable?: boolean;
}

export async function change(context: Context, { id, enable, ...fields }: ChangeOptions): Promise<void> {
  const active = enable ? { active: true as const } : {};
  const body = { ...toBody(fields), ...active };
  if (Object.keys(body).length === 0) throw usageError('Nothing would change.', 'See: bursar webhooks change --help');
  const { api } = await context.client();
  await printWebhook(context, await api.changeWebhook({ path: { webhook_id: id }, body, signal: context.signal }));
}

export async function remove(context: Context, { id }: WebhookId): Promise<void> {
  const { api } = await context.client();
  const webhook = await api.deleteWebhook({ path: { webhook_id: id }, signal: context.signal });
  if (context.options.json) return await context.printJson(webhook);
  context.note(`Webhook ${webhook.id} is deleted.`);
}

export async function rotateSecret(context: Context, { id }: WebhookId): Promise<void> {
  const { api } = await context.client();
  await printSecret(context, await api.rotateWebhookSecret({ path: { webhook_id: id }, signal: context.signal }));
}

export async function test(context: Context, { id }: WebhookId): Promise<void> {
  const { api } = await context.client();
  await printSent(context, id, await api.testWebhook({ path: { webhook_id: id }, signal: context.signal }));
}

export async function resend(context: Context, { id, delivery }: WebhookId & { delivery: string }): Promise<void> {
  const { api } = await context.client();
  const path = { webhook_id: id, delivery_id: delivery };
  await printSent(context, id, await api.resendDelivery({ path, signal: context.signal }));
}

async function printSent(context: Context, id: string, delivery: Delivery): Promise<void> {
  if (context.options.json) return await context.printJson(delivery);
  context.note(`Delivery ${delivery.id} is being sent. See its result: bursar webhooks deliveries ${id}`);
}

export async function deliveries(context: Context, { id, limit }: WebhookId & { limit: string }): Promise<void> {
  const { api } = await context.client();
  const query = { limit: parseCount('--limit', limit) ?? 50 };
  const found = await api.listDeliveries({ path: { webhook_id: id }, query, signal: context.signal });
  await context.printTable(found, deliveryColumns(context), 'Nothing was sent yet.');
}

function deliveryColumns({ now }: Context): Column<Delivery>[] {
  return [
    { title: 'Id', value: ({ id }) => String(id), align: 'right' },
    { title: 'When', value: ({ created_at: at }) => relativeTime(at, now()), plain: ({ created_at: at }) => at },
    { title: 'Event', value: ({ type }) => type },
    { title: 'State', value: ({ state }) => state, colour: ({ state }) => (state === 'failed' ? 'red' : undefined) },
    { title: 'Tries', value: ({ tries }) => String(tries), align: 'right' },
    { title: 'Result', value: ({ last_result: result }) => result ?? '' },
    { title: 'Error', value: ({ last_error: error }) => error ?? '', flexible: true },
  ];
}
