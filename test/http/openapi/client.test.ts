import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createClient, type UserConfig } from '@hey-api/openapi-ts';
import type { Job, Quota } from '../../support/api.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { createZip } from '../../support/zip.ts';

// Generates a client from the served document, compiles it, and runs jobs with it.

const compiler = fileURLToPath(new URL('../../../node_modules/typescript-7/bin/tsc', import.meta.url));

const generated = './generated';
/** Written in the types of the generated client, so compiling it checks them. */
const program = `
import { client } from '${generated}/client.gen.ts';
import type { BatchPayload, ErrorCode, Job, Quota, Stage } from '${generated}/index.ts';
import { getJob, getJobFile, getJobLog, getQuota, listJobs, submitJob } from '${generated}/index.ts';

export async function runJobs(baseUrl: string, token: string, zip: Blob) {
  client.setConfig({ baseUrl, auth: token });
  const Payload: BatchPayload = { command: 'sbatch run.sh', node_number: '1', core_number: 1, runtime: 0.1, title: 'Generated' };
  const headers = { 'Content-Disposition': 'attachment; filename=job.zip', Payload };
  const { data: submitted } = await submitJob({ path: { hpc: 'hpc_one' }, headers, body: zip, throwOnError: true });
  const path = { hpc: 'hpc_one', project_name: submitted.project_name, job_id: submitted.job_id };
  let job: Job = submitted;
  while (!job.terminal_stage) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    job = (await getJob({ path, throwOnError: true })).data;
  }
  const stage: Stage = 'SUCCESSFUL';
  const { data: jobs } = await listJobs({ query: { stage, limit: 10 }, throwOnError: true });
  const { data: log } = await getJobLog({ path, throwOnError: true });
  const { data: file } = await getJobFile({ path: { ...path, path: 'results/out.txt' }, parseAs: 'text', throwOnError: true });
  const { data: quota } = await getQuota({ path: { hpc: path.hpc, project_name: path.project_name }, throwOnError: true });
  const { error } = await getJob({ path: { ...path, job_id: 'NONE' } });
  const code: ErrorCode | undefined = error?.code;
  const left: Quota['time_left'] = quota.time_left;
  return { job, jobs, log, file, left, code };
}

export const withoutProgram = () =>
  // @ts-expect-error: the Payload needs a command or a tool
  submitJob({ path: { hpc: 'hpc_one' }, headers: { 'Content-Disposition': '', Payload: { title: '' } } });
`;

let server: TestServer;
let folder: string;

before(async () => {
  server = await startServer();
  folder = await mkdtemp(join(tmpdir(), 'bursar-client-'));
  const input = (await (await fetch(`${server.url}/openapi.json`)).json()) as UserConfig['input'];
  await createClient({
    input,
    output: { path: join(folder, 'generated'), module: { extension: '.ts' } },
    logs: { level: 'silent', file: false },
  });
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  await writeFile(join(folder, 'program.ts'), program);
});
after(async () => {
  await server.dispose();
  await rm(folder, { recursive: true });
});

test('a generated client compiles, and its types are those of the requests and responses', async () => {
  const options = [
    '--strict',
    '--noEmit',
    '--allowImportingTsExtensions',
    '--target',
    'esnext',
    '--module',
    'nodenext',
  ];
  await promisify(execFile)(process.execPath, [compiler, ...options, 'program.ts'], { cwd: folder }).catch(
    ({ stdout, stderr }) => assert.fail(stdout + stderr),
  );
});

test('a generated client submits a job and reads it, its log, its files, a quota and an error', async () => {
  const { runJobs } = await import(pathToFileURL(join(folder, 'program.ts')).href);
  const script = '#!/bin/bash\nmkdir results\necho written > results/out.txt\necho printed\n';
  const zip = new Blob([new Uint8Array(await createZip({ 'run.sh': script }))]);
  const result: { job: Job; jobs: Job[]; log: string; file: string; left: Quota['time_left']; code: string } =
    await runJobs(server.url, server.userToken, zip);
  assert.deepEqual([result.job.stage, result.job.title, result.job.runtime], ['SUCCESSFUL', 'Generated', 0.1]);
  assert.deepEqual(result.jobs, [result.job]);
  assert.deepEqual([result.log, result.file], ['printed\n', 'written\n']);
  assert.equal(typeof result.left, 'number');
  assert.equal(result.code, 'job_unknown');
});
