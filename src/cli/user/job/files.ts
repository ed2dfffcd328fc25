import { formatBytes } from '../../../domain/format-amount.ts';
import type { Context } from '../context.ts';
import { relativeTime } from '../terminal/time.ts';
import { findJob } from './find-job.ts';
import { accessJob } from './job-access.ts';
import type { JobOptions } from './options.ts';

export async function run(context: Context, { job: reference, owner = 'caller' }: JobOptions): Promise<void> {
  const client = await context.client();
  const files = await accessJob(client, context, await findJob(context, reference, owner), owner).files();
  await context.printTable(
    files,
    [
      { title: 'Path', value: ({ path }) => path, flexible: true },
      { title: 'Size', value: ({ size }) => formatBytes(size), plain: ({ size }) => String(size), align: 'right' },
      {
        title: 'Modified',
        value: ({ modified }) => relativeTime(modified, context.now()),
        plain: ({ modified }) => modified,
      },
    ],
    'The job has no files.',
  );
}
