import type { Context } from '../context.ts';
import { jobColumns } from '../job/job-columns.ts';
import { parseSince } from '../job/parse-since.ts';

interface JobsOptions {
  user?: string;
  system?: string;
  project?: string;
  stage?: string;
  since?: string;
  failed?: boolean;
  unfinished?: boolean;
}

/** Lists the jobs of all users. */
export async function list(context: Context, options: JobsOptions): Promise<void> {
  const { api } = await context.client();
  const { user, system, project, stage, since, failed, unfinished } = options;
  const query = {
    ...(user === undefined ? {} : { user_id: user }),
    ...(system === undefined ? {} : { hpc: system }),
    ...(project === undefined ? {} : { project_name: project }),
    ...(stage === undefined ? {} : { stage }),
    ...(since === undefined ? {} : { since: parseSince(since, context.now()) }),
    ...(failed === undefined ? {} : { failed }),
    ...(unfinished === undefined ? {} : { terminal: false }),
  };
  const jobs = await api.listJobsOfAllUsers({ query, signal: context.signal });
  await context.printTable(jobs, jobColumns(jobs, context.now, { owner: true }), 'There are no such jobs.');
}
