import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rawZip } from '../files/zip/raw-zip.ts';
import type { ApiResponse, Caller, Job, Quota } from './api.ts';
import { until } from './until.ts';
import { createZip } from './zip.ts';

/** The data folder of a server, which has the files of its jobs. */
interface ServerData {
  data: string;
}

/**
 * A shell line that waits for `releaseJob`, so that a test can check the running job without a race. It also ends when its
 * folder is removed, so that a failed test leaves no process behind.
 */
export const waitForGoScript = 'while [ ! -e go ] && [ -d "$PWD" ]; do sleep 0.05; done';

export function releaseJob({ data }: ServerData, job: Job): void {
  writeFileSync(join(data, 'workspaces', job.job_id, 'files', 'go'), '');
}

/** Reads the stored output of a job. */
export function readOutput({ data }: ServerData, job: Job, stream: 'stdout' | 'stderr' = 'stdout'): string {
  return readFileSync(join(data, 'workspaces', job.job_id, stream), 'utf8');
}

/** Lists the files of jobs outside the database. */
export function listStoredFiles({ data }: ServerData): string[] {
  const folders = ['spool', 'spool/incoming', 'workspaces'].map((name) => join(data, name));
  return folders.flatMap((folder) => (existsSync(folder) ? readdirSync(folder).sort() : []));
}

export function jobPath(job: Job): string {
  return `/jobs/${job.project_hpc.toLowerCase()}/${job.project_name}/${job.job_id}/`;
}

/** Requests the cancellation of a job. The response is 202 until the job has ended, then 200. */
export async function requestCancel(caller: Caller, job: Job, headers?: Record<string, string>) {
  return (await caller.send('POST', `${jobPath(job)}cancel/`, headers)) as ApiResponse<Job>;
}

/** Cancels a job and waits for its end. */
export async function cancelJob(caller: Caller, job: Job): Promise<Job> {
  const { status, text } = await requestCancel(caller, job);
  if (status !== 200 && status !== 202) throw new Error(`${job.job_id} was not cancelled: ${text}`);
  return await caller.waitUntilFinished(job);
}

/** Polls a job until it is in the stage, and returns that response. */
export function waitForStage(caller: Caller, job: Job, stage: string): Promise<ApiResponse<Job>> {
  return until(`${job.job_id} in stage ${stage}`, async () => {
    const response = await caller.get<Job>(jobPath(job));
    if (response.body.stage === stage) return response;
    if (response.body.terminal_stage) throw new Error(`${job.job_id} ended as ${response.body.stage}`);
    return undefined;
  });
}

/** The request of the interface description: every value is a string. */
export const exampleRequest = { node_number: '2', core_number: '6', runtime: '2.0', title: 'Title' };

/** A job of the tool BASH that succeeds. */
export const bashZip = rawZip([{ name: 'main.sh', content: 'true\n' }]);

/** A script that every system rejects, because it does not name its interpreter. Nothing of the job runs. */
export const unrunnableScript = {
  command: 'sbatch run.sh',
  zip: rawZip([{ name: 'run.sh', content: 'true\n' }]),
} as const;

export type Hpc = 'hpc_one' | 'hpc_two';

/** Submits a job that runs a shell line, on either kind of system. */
export async function submitShellLine(
  caller: Caller,
  path: string,
  line: string,
  payload: Record<string, unknown> = {},
): Promise<ApiResponse<Job>> {
  if (path.startsWith('/jobs/hpc_one/')) return caller.submit(path, { command: line, ...payload });
  return caller.submit(path, { tool: 'BASH', ...payload }, await createZip({ 'main.sh': `${line}\n` }));
}

/** The responses and quotas of the example job from before its submission until after its end. */
export interface JobHistory {
  before: Quota;
  submitted: ApiResponse<Job>;
  running: ApiResponse<Job>;
  during: Quota;
  finished: ApiResponse<Job>;
  after: Quota;
}

export async function runExampleJob(
  server: ServerData,
  caller: Caller,
  hpc: Hpc,
  payload: Record<string, unknown> = exampleRequest,
): Promise<JobHistory> {
  const project = `proj_${hpc}_01`;
  const before = await caller.quota(hpc, project);
  const submitted = await submitShellLine(caller, `/jobs/${hpc}/`, waitForGoScript, payload);
  if (submitted.status !== 201) throw new Error(`not accepted: ${submitted.text}`);
  const running = await waitForStage(caller, submitted.body, 'RUNNING');
  const during = await caller.quota(hpc, project);
  releaseJob(server, submitted.body);
  await caller.waitUntilFinished(submitted.body);
  const finished = await caller.get<Job>(jobPath(submitted.body));
  return { before, submitted, running, during, finished, after: await caller.quota(hpc, project) };
}

/** Runs a job that is observed in every stage. A job that ends at once may never be observed as running. */
export async function runThroughAllStages(
  server: ServerData,
  caller: Caller,
  line = 'true',
  { path = '/jobs/hpc_one/', payload = {} }: { path?: string; payload?: Record<string, unknown> } = {},
): Promise<Job> {
  const { body: job } = await submitShellLine(caller, path, `${waitForGoScript}; ${line}`, payload);
  await waitForStage(caller, job, 'RUNNING');
  releaseJob(server, job);
  return await caller.waitUntilFinished(job);
}
