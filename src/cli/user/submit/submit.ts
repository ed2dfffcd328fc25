import type { Bursar, System, UploadProgress } from '#client';
import type { Context } from '../context.ts';
import { latestEvent } from '../events/latest-event.ts';
import { createProgress } from '../terminal/progress.ts';
import { escapeText } from '../terminal/text.ts';
import { createLocalInputCheck } from './check-local-input.ts';
import { completeSettings, type TargetedSettings } from './choose-system.ts';
import { type JobOptions, readSettings } from './job-options.ts';
import { type OpenedInput, openJobInput } from './open-input.ts';
import { parseParameters } from './parameters.ts';
import { applyParameters } from './placeholders.ts';
import { describeQuote, requireAccepted } from './quote-text.ts';
import { watchJob } from './watch-job.ts';

export interface SubmitOptions extends JobOptions {
  param?: readonly string[];
  watch?: boolean;
  dryRun?: boolean;
  /** The Idempotency-Key. */
  key?: string;
}

/** Submits one job. With a key, running the command again returns the same job. */
export async function run(context: Context, options: SubmitOptions): Promise<void> {
  const input = await openJobInput(options.input);
  const given = await readSettings(input, options, parseParameters(options.param));
  const client = await context.client();
  const { settings: complete, system } = await completeSettings(context, client, given);
  const settings = { ...complete, ...applyParameters(complete, complete.params, toolParameters(complete, system)) };
  await submitChecked(context, client, { request: toSubmission(settings), input, system }, options);
}

export interface CheckedSubmission {
  request: JobDescription;
  input: OpenedInput;
  system: System;
}

/**
 * Submits a job, and prints it. Everything that can be checked here is checked before a byte of the input is sent: the files
 * by the rules of the server, and the quote.
 */
export async function submitChecked(
  context: Context,
  client: Bursar,
  { request, input, system }: CheckedSubmission,
  options: Pick<SubmitOptions, 'watch' | 'dryRun' | 'key'> = {},
): Promise<void> {
  await createLocalInputCheck(input, system)(request);
  const quote = await client.quote({ ...request, signal: context.signal });
  if (options.dryRun && context.options.json) await context.printJson(quote);
  requireAccepted(quote, system);
  if (options.dryRun) {
    if (!context.options.json) await context.print(`${describeQuote(quote, system)}\n`);
    return;
  }
  context.note(describeQuote(quote, system));
  const since = options.watch ? await latestEvent(context, client) : 0;
  const job = await upload(context, client, { ...request, ...keyOf(options) }, input);
  if (options.watch) return await watchJob(context, client, job, { since, charge: system.charge });
  if (context.options.json) return await context.printJson(job.data);
  await context.print(`${job.job_id}\n`);
  const { project_name, stage } = job.data;
  context.note(
    `${stage} on ${system.hpc}, project ${escapeText(project_name)}. Follow it: bursar job log -f ${job.job_id}`,
  );
}

const keyOf = ({ key }: Pick<SubmitOptions, 'key'>) => (key === undefined ? {} : { idempotencyKey: key });

type Submission = Parameters<Bursar['submit']>[0];
/** A job in the names of the client. */
type JobDescription = Omit<Submission, 'input' | 'signal'>;

export function toSubmission(settings: TargetedSettings): JobDescription {
  const { system, cores, command, tool, params, ...rest } = settings;
  const program = tool === undefined ? { command: command ?? '' } : { tool, params };
  return { hpc: system, ...rest, ...program, ...(cores === undefined ? {} : { coresPerNode: cores }) };
}

export function toolParameters({ tool }: { tool?: string | undefined }, { tools }: System): string[] {
  return tools.find(({ name }) => name === tool)?.parameters.map(({ name }) => name) ?? [];
}

export const sourceOf = (input: OpenedInput) => (input.kind === 'none' ? {} : { input: input.source });

/** More than for other requests: a large upload over a bad network is worth waiting for. */
export const uploadRetries = 10;

/** Sends the job, with a progress bar if standard error is a terminal. */
async function upload(context: Context, client: Bursar, request: Omit<Submission, 'input'>, input: OpenedInput) {
  const progress = createProgress(context, 'Uploading');
  try {
    const onProgress = ({ sentBytes, totalBytes }: UploadProgress) => progress.update(sentBytes, totalBytes ?? null);
    return await client.submit({
      ...request,
      ...sourceOf(input),
      onProgress,
      retries: uploadRetries,
      signal: context.signal,
    });
  } finally {
    progress.end();
  }
}
