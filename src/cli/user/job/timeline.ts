import type { Timeline } from '#client';
import type { Context } from '../context.ts';
import type { Column } from '../terminal/table.ts';
import { formatDuration, relativeTime } from '../terminal/time.ts';
import { findJob } from './find-job.ts';
import { accessJob } from './job-access.ts';
import type { JobOptions } from './options.ts';

type Entry = Timeline['entries'][number];

export async function run(context: Context, { job: reference, owner = 'caller' }: JobOptions): Promise<void> {
  const client = await context.client();
  const timeline = await accessJob(client, context, await findJob(context, reference, owner), owner).timeline();
  if (context.options.json) return await context.printJson(timeline);
  await context.printTable(timeline.entries, columns(context), 'The timeline is empty.');
}

function columns({ now }: Context): Column<Entry>[] {
  return [
    { title: 'When', value: ({ at }) => relativeTime(at, now()), plain: ({ at }) => at },
    { title: 'Event', value: ({ type }) => type },
    { title: 'Stage', value: ({ stage }) => stage ?? '' },
    { title: 'Outcome', value: ({ outcome }) => outcome ?? '' },
    {
      title: 'Used',
      value: ({ used_seconds: seconds }) => (seconds === null ? '' : formatDuration(seconds)),
      plain: ({ used_seconds: seconds }) => String(seconds ?? ''),
    },
    { title: 'Details', value: describeEntry, flexible: true },
  ];
}

function describeEntry({
  reason,
  by,
  engine_id: id,
  scheduler_message: message,
  charged_seconds: charged,
  charge_rule: rule,
}: Entry) {
  return [
    reason,
    by === null ? null : `by ${by}`,
    id === null ? null : `as ${id}`,
    message,
    charged === null ? null : `charged ${charged} s`,
    rule,
  ]
    .filter((part) => part !== null && part !== '')
    .join(', ');
}
