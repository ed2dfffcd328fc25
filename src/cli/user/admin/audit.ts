import type { AuditRecord } from '#client';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { parseSince } from '../job/parse-since.ts';
import { parseCount } from '../parse-options.ts';
import type { Column } from '../terminal/table.ts';
import { relativeTime } from '../terminal/time.ts';

interface AuditOptions {
  actor?: string;
  action?: string;
  subject?: string;
  address?: string;
  request?: string;
  from?: string;
  to?: string;
  limit?: string;
  csv?: boolean;
}

/** Lists the audit trail, newest first. */
export async function list(context: Context, options: AuditOptions): Promise<void> {
  if (options.csv && context.options.json) throw usageError('--csv and --json exclude each other.');
  const { api } = await context.client();
  const { actor, action, subject, address, request, from, to } = options;
  const { signal } = context;
  const query = {
    limit: parseCount('--limit', options.limit) ?? 100,
    ...(actor === undefined ? {} : { actor }),
    ...(action === undefined ? {} : { action }),
    ...(subject === undefined ? {} : { subject }),
    ...(address === undefined ? {} : { address }),
    ...(request === undefined ? {} : { request_id: request }),
    ...(from === undefined ? {} : { from: parseSince(from, context.now()) }),
    ...(to === undefined ? {} : { to: parseSince(to, context.now()) }),
  };
  if (options.csv) {
    const csv = { query: { ...query, format: 'csv' }, signal, as: 'text' } as const;
    return await context.print(await api.listAuditRecords(csv));
  }
  await context.printTable(
    await api.listAuditRecords({ query, signal }),
    columns(context),
    'There are no such records.',
  );
}

function columns({ now }: Context): Column<AuditRecord>[] {
  return [
    { title: 'Id', value: ({ id }) => String(id), align: 'right' },
    { title: 'When', value: ({ at }) => relativeTime(at, now()), plain: ({ at }) => at },
    { title: 'Actor', value: ({ actor }) => actor },
    { title: 'Action', value: ({ action }) => action },
    { title: 'Subject', value: ({ subject }) => subject, flexible: true },
    { title: 'From', value: ({ address }) => address ?? '' },
    { title: 'Details', value: ({ details }) => JSON.stringify(details), flexible: true },
  ];
}
