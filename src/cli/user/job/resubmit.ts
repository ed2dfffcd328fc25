import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type JobHandle, openZip, saveArchive } from '#client';
import type { Context } from '../context.ts';
import { parseCount, parseHours } from '../parse-options.ts';
import { parseParameters } from '../submit/parameters.ts';
import { createProgress } from '../terminal/progress.ts';
import { findJob } from './find-job.ts';

interface ResubmitOptions {
  job: string;
  command?: string;
  tool?: string;
  nodes?: string;
  cores?: string;
  runtime?: string;
  title?: string;
  param?: string[];
}

/** Submits a new job with the files and the request of an earlier one. Options replace parts of the request. */
export async function run(context: Context, options: ResubmitOptions): Promise<void> {
  const client = await context.client();
  const earlier = await findJob(context, options.job);
  const changes = {
    nodes: parseCount('--nodes', options.nodes),
    coresPerNode: parseCount('--cores', options.cores),
    runtime: parseHours(options.runtime),
    params: parseParameters(options.param),
  };
  const { hpc, project_name: project } = client.job(earlier);
  const { request: granted } = await client.job(earlier).timeline({ signal: context.signal });
  if (granted.params === null) {
    context.note('The parameters of the tool are not stored, because the job is of an earlier version of Bursar.');
  }
  const isOtherTool = options.tool !== undefined && options.tool !== granted.tool;
  const request = {
    hpc,
    project,
    command: options.command ?? granted.command ?? undefined,
    tool: options.tool ?? granted.tool ?? undefined,
    nodes: changes.nodes ?? granted.nodes,
    coresPerNode: changes.coresPerNode ?? granted.cores_per_node,
    runtime: changes.runtime ?? granted.runtime,
    title: options.title ?? earlier.title,
    params: { ...(isOtherTool ? {} : granted.params), ...changes.params },
  };
  const folder = await mkdtemp(join(tmpdir(), 'bursar-resubmit-'));
  try {
    const zip = join(folder, 'job.zip');
    await transfer(context, 'download', (report) =>
      saveArchive(client.job(earlier), zip, {
        signal: context.signal,
        onProgress: ({ receivedBytes }) => report(receivedBytes, null),
      }),
    );
    const job = await transfer(context, 'upload', async (report): Promise<JobHandle> => {
      const input = await openZip(zip);
      const onProgress = (sent: { sentBytes: number; totalBytes: number | undefined }) =>
        report(sent.sentBytes, sent.totalBytes ?? null);
      return await client.submit({ ...request, input, onProgress, signal: context.signal });
    });
    if (context.options.json) return await context.printJson(job.data);
    await context.print(`${job.job_id}\n`);
    context.note(`Submitted again. Follow it: bursar job log -f ${job.job_id}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function transfer<T>(
  context: Context,
  label: string,
  action: (report: (doneBytes: number, totalBytes: number | null) => void) => Promise<T>,
): Promise<T> {
  const progress = createProgress(context, label);
  try {
    return await action((doneBytes, totalBytes) => progress.update(doneBytes, totalBytes));
  } finally {
    progress.end();
  }
}
