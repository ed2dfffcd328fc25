import type { Context } from '../context.ts';
import { CommandError, usageError } from '../errors.ts';
import { parseCount, parseHours } from '../parse-options.ts';
import { openJobInput } from '../submit/open-input.ts';
import { parseParameters } from '../submit/parameters.ts';
import { applyParameters } from '../submit/placeholders.ts';
import { submitChecked, toolParameters } from '../submit/submit.ts';
import { findJob } from './find-job.ts';

interface ResubmitOptions {
  job: string;
  /** A folder or a zip. */
  input?: string;
  withoutInput?: boolean;
  command?: string;
  tool?: string;
  nodes?: string;
  cores?: string;
  runtime?: string;
  title?: string;
  param?: string[];
}

/**
 * Submits a new job with the request of an earlier one. Options replace parts of the request. The server does not know which
 * files of a job were its input, and which are its results or were changed by it. So the caller names the input again.
 */
export async function run(context: Context, options: ResubmitOptions): Promise<void> {
  const changes = {
    nodes: parseCount('--nodes', options.nodes),
    coresPerNode: parseCount('--cores', options.cores),
    runtime: parseHours(options.runtime),
    params: parseParameters(options.param),
  };
  if ((options.input === undefined) !== (options.withoutInput === true))
    throw usageError(
      'Name the input of the new job: the server cannot tell the input of the earlier job from its results.',
      `Run: bursar job resubmit ${options.job} <folder or zip>, or with --without-input if it needs none`,
    );
  const input = await openJobInput(options.input);
  const client = await context.client();
  const earlier = await findJob(context, options.job);
  const { hpc, project_name: project } = client.job(earlier);
  const { request: granted, tags } = await client.job(earlier).timeline({ signal: context.signal });
  if (granted.params === null) {
    context.note('The parameters of the tool are not stored, because the job is of an earlier version of Bursar.');
  }
  const system = (await client.api.listSystems({ signal: context.signal })).find((candidate) => candidate.hpc === hpc);
  if (system === undefined) throw new CommandError('failure', `The system ${hpc} of the job no longer exists.`);
  const tool = options.tool ?? granted.tool ?? undefined;
  const { command, title } = options;
  const given = {
    ...(command === undefined ? {} : { command }),
    ...(title === undefined ? {} : { title }),
    ...(tool === undefined ? {} : { tool }),
    params: {},
  };
  const filled = applyParameters(given, changes.params, toolParameters({ tool }, system));
  const request = {
    hpc,
    project,
    command: filled.command ?? granted.command ?? undefined,
    tool,
    nodes: changes.nodes ?? granted.nodes,
    coresPerNode: changes.coresPerNode ?? granted.cores_per_node,
    runtime: changes.runtime ?? granted.runtime,
    title: filled.title ?? earlier.title,
    tags,
    params: { ...(tool === granted.tool ? granted.params : {}), ...filled.params },
  };
  await submitChecked(context, client, { request, input, system });
}
