import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createCaller, type Job } from '../../support/api.ts';
import { runFile } from '../../support/command-line.ts';
import { jobPath } from '../../support/jobs.ts';
import { findExample, readme } from '../../support/readme.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { readZip } from '../../support/unzip.ts';
import { createZip } from '../../support/zip.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

describe('README.md', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-readme-'));
  let server: ServerProcess;
  before(async () => {
    server = await spawnServer();
  });
  after(async () => {
    await server.dispose();
    rmSync(folder, { recursive: true, force: true });
  });

  test('the message of the first start contains working curl commands: submit, list, quotas', async () => {
    const commands = server
      .stdout()
      .split('\n')
      .filter((line) => line.startsWith('  curl '));
    assert.equal(commands.length, 3);
    const outputs: unknown[] = [];
    for (const command of commands) outputs.push(JSON.parse((await runFile('bash', ['-c', command])).stdout));
    const [job, jobs, quotas] = outputs as [Job, Job[], unknown[]];
    assert.equal(job.title, 'First job');
    assert.equal(jobs[0]?.id, job.id);
    assert.equal(quotas.length, 3);
  });

  test('the example of the command line submits a job, follows it, and downloads its files', async () => {
    const home = join(folder, 'home');
    const env = { PATH: process.env.PATH, HOME: home, TOKEN: server.userToken };
    // In the folder of the test instead of that of the project, where npm would run it.
    const bursar = `bursar() { ${process.execPath} ${join(root, 'bin/bursar.mjs')} "$@"; }`;
    const runExample = (containing: string) => {
      const script = findExample('sh', containing, server.url).replaceAll('npm run -s bursar --', 'bursar');
      return runFile('bash', ['-euc', `${bursar}\n${script}`], { cwd: folder, env });
    };
    const { stdout } = await runExample('submit first-job');
    assert.match(stdout, /hello, world\n/);
    assert.match(stdout, /First job/);
    assert.match((await runExample('job log -f @last')).stdout, /^hello, world\n/);
    assert.match(readFileSync(join(folder, 'results', 'run.sh'), 'utf8'), /echo "hello/);
  });

  test('the server has the clients that it names', async () => {
    const urls = [...readme.matchAll(/127\.0\.0\.1:8080(\/clients\/[\w.-]+)/g)].map(([, path]) => server.url + path);
    assert.equal(urls.length, 3);
    for (const url of urls) assert.equal((await fetch(url)).status, 200, url);
  });

  test('the curl example submits a job that succeeds', async () => {
    const script = findExample('sh', '--data-binary @job.zip', server.url);
    const env = { ...process.env, TOKEN: server.userToken };
    await runFile('bash', ['-euc', script], { cwd: folder, env });
    const me = createCaller(server.url, server.userToken);
    const job = (await me.get<Job[]>('/jobs/hpc_one/')).body.at(-1);
    assert.ok(job);
    assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
    assert.equal(readFileSync(join(server.data, 'workspaces', job.job_id, 'stdout'), 'utf8'), 'hello, world\n');
  });

  test('the Python example submits a job that succeeds', async () => {
    const script = findExample('python', 'import io', server.url);
    const env = { ...process.env, TOKEN: server.userToken };
    const { stdout } = await runFile('python3', ['-c', script], { cwd: folder, env });
    assert.match(stdout, /^COMPLETED \d+\n$/);
  });

  test('the example of paging, caching and retries works, and a repeated key creates no second job', async () => {
    const script = findExample('sh', 'Idempotency-Key', server.url);
    const env = { ...process.env, TOKEN: server.userToken };
    const run = () => runFile('bash', ['-euc', script], { cwd: folder, env });
    const me = createCaller(server.url, server.userToken);
    await run();
    const submitted = (await me.get<Job[]>('/jobs/hpc_one/')).body.at(-1);
    assert.ok(submitted);
    await me.waitUntilFinished(submitted);
    const { stdout } = await run();
    assert.match(stdout, /^HTTP\/1.1 200 OK\r\n/);
    assert.equal((await me.get<Job[]>('/jobs/hpc_one/')).body.at(-1)?.job_id, submitted.job_id);
    assert.match(readFileSync(join(folder, 'etag'), 'utf8'), /^"[\w-]+"\s*$/);
    assert.ok(JSON.parse(readFileSync(join(folder, 'jobs.json'), 'utf8')).length > 0);
  });

  for (const [language, containing] of [
    ['sh', '?archive=zip'],
    ['python', 'iter_content'],
  ] as const) {
    test(`the ${language} example downloads the results`, async () => {
      const me = createCaller(server.url, server.userToken);
      const zip = await createZip({ 'run.sh': '#!/bin/sh\necho started; sleep 1; echo done\n' });
      const { body: job } = await me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip);
      const env = { ...process.env, TOKEN: server.userToken, JOB: jobPath(job).replace(/^\/jobs\/|\/$/g, '') };
      const program = language === 'sh' ? ['bash', '-euc'] : ['python3', '-c'];
      const argv = [...program.slice(1), findExample(language, containing, server.url)];
      const { stdout } = await runFile(program[0] ?? '', argv, { cwd: folder, env });
      assert.match(stdout, /^started\ndone\n/);
      assert.match(stdout, /run\.sh/);
      if (language === 'python') return;
      assert.match(readFileSync(join(folder, 'result.sh'), 'utf8'), /echo started/);
      assert.ok((await readZip(readFileSync(join(folder, 'results.zip')))).has('run.sh'));
    });
  }

  test("every operators' command in it runs", async () => {
    const commands = readme.matchAll(/^npm run -s bursar -- ((?!login|submit|jobs|job |quota).*)$/gm);
    const lines = [...commands].map(([, line = '']) => line.split(' '));
    assert.ok(lines.length >= 4);
    for (const line of lines) assert.notEqual((await server.bursar(...line)).stdout, '');
  });
});
