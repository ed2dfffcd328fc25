import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Bursar, type Job, type JobHandle, openZip, type System, saveArchive } from '#client';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
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

/** Submits a new job with the files, the title and the runtime of an earlier one. */
export async function run(context: Context, options: ResubmitOptions): Promise<void> {
  const client = await context.client();
  const earlier = await findJob(context, options.job);
  const { hpc, project_name: project } = client.job(earlier);
  const request = {
    hpc,
    project,
    ...(await chooseProgram(context, client, earlier, options)),
    nodes: parseCount('--nodes', options.nodes),
    coresPerNode: parseCount('--cores', options.cores),
    runtime: parseHours(options.runtime) ?? earlier.runtime,
    title: options.title ?? earlier.title,
    params: parseParameters(options.param),
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

/** The server does not tell the command of a job. The tool is a part of the ids of most tool systems. */
async function chooseProgram({ signal }: Context, { api }: Bursar, earlier: Job, options: ResubmitOptions) {
  const { command, tool } = options;
  if (command !== undefined || tool !== undefined) return { command, tool };
  const system = await api.getSystem({ path: { hpc: earlier.project_hpc.toLowerCase() }, signal });
  const found = toolOf(earlier, system);
  if (found !== undefined) return { tool: found };
  const option = system.kind === 'tool' ? '--tool' : '--command';
  throw usageError(`The server does not store what the job ran.`, `Give it again: bursar job resubmit … ${option} "…"`);
}

function toolOf({ job_id: id }: Job, { tools }: System): string | undefined {
  return tools.map(({ name }) => name).find((name) => id.includes(`-${name}-`));
}
