import type { Bursar, Event } from '#client';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { parseCount } from '../parse-options.ts';
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
    if (options.limit !== undefined)
      throw usageError('--follow and --limit exclude each other.', 'New events have no limit: stop with Ctrl-C.');
    const since = after === undefined ? {} : { since: after };
    const user = options.user === undefined ? {} : { user: options.user };
    for await (const event of client.events({ ...since, ...user, signal })) await printEvent(context, event);
    return;
  }
  await context.printTable(await readStored(context, client, options, after), columns(context), 'There are no events.');
}

/** Reads the stored events after a position, by default all of them, or the newest ones of these. */
async function readStored(
  { signal }: Context,
  { api }: Bursar,
  { user, limit }: EventsOptions,
  after: number | undefined,
): Promise<Event[]> {
  const read = (query: { after?: string; limit: number }) =>
    user === undefined
      ? api.listEvents({ query, signal })
      : api.listEventsOfUser({ path: { user_id: user }, query, signal });
  const maxEvents = parseCount('--limit', limit);
  let position = after;
  if (maxEvents !== undefined) {
    // Ids have no gaps, so that they tell where the newest events begin. Older events may be deleted already.
    const { next: latest } = await read({ after: 'latest', limit: 1 });
    const [oldest] = (await read({ limit: 1 })).events;
    position = Math.max(after ?? 0, latest - maxEvents, (oldest?.id ?? 1) - 1);
  }
  const events: Event[] = [];
  for (;;) {
    const page = await read({ ...(position === undefined ? {} : { after: String(position) }), limit: pageSize });
    events.push(...page.events);
    if (page.events.length < pageSize) break;
    position = page.next;
  }
  return maxEvents === undefined ? events : events.slice(-maxEvents);
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
