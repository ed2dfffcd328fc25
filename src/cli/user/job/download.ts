import { join } from 'node:path';
import { type JobHandle, saveArchive, saveFiles } from '#client';
import { formatBytes } from '../../../domain/format-amount.ts';
import type { Context } from '../context.ts';
import { CommandError, usageError } from '../errors.ts';
import { createProgress } from '../terminal/progress.ts';
import { findJob } from './find-job.ts';

interface DownloadOptions {
  job: string;
  /** Files or folders of the job; all if there are none. */
  paths: string[];
  output?: string;
  zip?: boolean;
}

/** Downloads files of a job. An interrupted download continues when the command runs again. */
export async function run(context: Context, { job: reference, paths, output, zip }: DownloadOptions): Promise<void> {
  const client = await context.client();
  const job = client.job(await findJob(context, reference));
  if (output === '-') return await printFile(context, job, paths, zip);
  if (zip) return await downloadZip(context, job, paths, output ?? `${job.job_id}.zip`);
  const folder = output ?? job.job_id;
  const isWanted = (path: string) =>
    paths.length === 0 || paths.some((wanted) => path === wanted || path.startsWith(`${wanted.replace(/\/+$/, '')}/`));
  const progress = createProgress(context, 'download');
  try {
    const files = await saveFiles(job, folder, {
      signal: context.signal,
      filter: ({ path }) => isWanted(path),
      onProgress: ({ allBytes, totalBytes }) => progress.update(allBytes, totalBytes),
    });
    progress.end();
    if (files.length === 0 && paths.length > 0)
      throw new CommandError(
        'failure',
        `The job has no file ${paths.join(', ')}.`,
        `See its files: bursar job files ${reference}`,
      );
    const bytes = files.reduce((sum, { size }) => sum + size, 0);
    context.note(`${files.length} files, ${formatBytes(bytes)}, are in ${folder}`);
    if (context.options.json) await context.printJson(files);
    else if (!context.isTerminal) await context.print(files.map(({ path }) => `${join(folder, path)}\n`).join(''));
  } finally {
    progress.end();
  }
}

async function downloadZip(context: Context, job: JobHandle, paths: string[], target: string): Promise<void> {
  if (paths.length > 0) throw usageError('--zip has all files of the job.', 'Leave out the paths.');
  const progress = createProgress(context, 'download');
  try {
    const onProgress = ({ receivedBytes }: { receivedBytes: number }) => progress.update(receivedBytes, null);
    await saveArchive(job, target, { signal: context.signal, onProgress });
  } finally {
    progress.end();
  }
  context.note(`All files of the job are in ${target}`);
}

/** Prints one file, or the zip of all files, to standard output. */
async function printFile(
  { signal, print, stdout }: Context,
  job: JobHandle,
  paths: string[],
  zip = false,
): Promise<void> {
  const [path, ...others] = paths;
  if (stdout.isTTY) throw usageError('A file is not printed to a terminal.', 'Redirect the output: … -o - > file');
  if (zip ? path !== undefined : path === undefined || others.length > 0)
    throw usageError('-o - prints one file, or the zip of all files.', 'Name one file, or use --zip.');
  const download = path === undefined ? await job.archive({ signal }) : await job.download(path, { signal });
  for await (const chunk of download) await print(chunk);
}
