import type { Event } from '#client';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import type { Column } from '../terminal/table.ts';
import { formatTable } from '../terminal/table.ts';
import { relativeTime } from '../terminal/time.ts';

interface EventsOptions {
  follow?: boolean;
  after?: string;
  limit?: string;
  /** For `admin events`. */
  user?: string;
}

const pageSize = 1000;

/** Prints the stored events, oldest first, or new ones as they happen. */
export async function run(context: Context, options: EventsOptions): Promise<void> {
  const { signal } = context;
  const client = await context.client();
  const after = parsePosition(options.after);
  if (options.follow) {
    const since = after === undefined ? {} : { since: after };
    const user = options.user === undefined ? {} : { user: options.user };
    for await (const event of client.events({ ...since, ...user, signal })) await printEvent(context, event);
    return;
  }
  const maxEvents = parsePosition(options.limit) ?? Number.POSITIVE_INFINITY;
  const events: Event[] = [];
  for (let position = after ?? 0; events.length < maxEvents; ) {
    const query = { after: String(position), limit: pageSize };
    const page =
      options.user === undefined
        ? await client.api.listEvents({ query, signal })
        : await client.api.listEventsOfUser({ path: { user_id: options.user }, query, signal });
    events.push(...page.events);
    if (page.events.length < pageSize) break;
    position = page.next;
  }
  await context.printTable(events.slice(-Math.min(maxEvents, events.length)), columns(context), 'There are no events.');
}

function parsePosition(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw usageError(`"${text}" is not a number.`, 'Use the id of an event, such as 17.');
}

async function printEvent(context: Context, event: Event): Promise<void> {
  if (context.options.json) return await context.printJsonLine(event);
  // A line of a stream has no titles, and times do not change after they were printed.
  const options = { columns: undefined, style: context.style };
  const [, line = ''] = formatTable([event], columns(context), options).split('\n');
  await context.print(`${line}\n`);
}

function columns({ now }: Context): Column<Event>[] {
  return [
    { title: 'Id', value: ({ id }) => String(id), align: 'right' },
    { title: 'When', value: ({ at }) => relativeTime(at, now()), plain: ({ at }) => at },
    { title: 'Event', value: ({ type }) => type },
    { title: 'Job', value: ({ data }) => data.job_id ?? '', flexible: true },
    { title: 'Stage', value: ({ job }) => job?.stage ?? '' },
    { title: 'Details', value: describeData, flexible: true },
  ];
}

const shownElsewhere = new Set(['hpc', 'project_name', 'job_id', 'stage']);

function describeData({ data }: Event): string {
  return Object.entries(data)
    .filter(([name, value]) => !shownElsewhere.has(name) && value !== null)
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ');
}
