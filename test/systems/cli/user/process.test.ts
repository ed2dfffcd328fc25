import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, createCaller, type Job } from '../../../support/api.ts';
import { bursarOfUser, program, runFile } from '../../../support/command-line.ts';
import { releaseJob, waitForGoScript } from '../../../support/jobs.ts';
import { oldestNode, userProgram } from '../../../support/oldest-node.ts';
import { startServer, type TestServer } from '../../../support/server.ts';
import { until } from '../../../support/until.ts';

// The file that the server offers to its users, on the oldest Node: signals, pipes, and commands that are killed.

describe("the users' command line as a process", () => {
  let server: TestServer;
  let me: Caller;
  let folder: string;
  let env: Record<string, string>;
  before(async () => {
    server = await startServer();
    me = createCaller(server.url, server.userToken);
    folder = mkdtempSync(join(tmpdir(), 'bursar-process-'));
    env = { BURSAR_URL: server.url, BURSAR_TOKEN: server.userToken, XDG_CONFIG_HOME: join(folder, 'config') };
  });
  after(async () => {
    rmSync(folder, { recursive: true });
    await server.dispose();
  });

  const jobsTitled = async (beginning: string) =>
    (await me.get<Job[]>('/jobs/')).body.filter(({ title }) => title.startsWith(beginning));

  function start(...args: string[]) {
    const options = {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'],
    };
    const child = spawn(oldestNode, [userProgram, ...args], options);
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (text: string) => {
        output[name] += text;
      });
    const ended = new Promise<number | null>((resolve, reject) => child.once('close', resolve).once('error', reject));
    return { child, output, ended };
  }

  test('login takes a token from a pipe', async () => {
    const command = `printf '%s\\n' "$TOKEN" | '${oldestNode}' '${userProgram}' login ${server.url} --token`;
    const { BURSAR_TOKEN: TOKEN, XDG_CONFIG_HOME } = env;
    await runFile('bash', ['-c', command], { env: { PATH: process.env.PATH, HOME: folder, TOKEN, XDG_CONFIG_HOME } });
    const { profiles } = JSON.parse(readFileSync(join(folder, 'config/bursar/profiles.json'), 'utf8'));
    assert.equal(profiles.default.token, server.userToken);
  });

  test('SIGINT detaches from a job that is watched, which runs on', async () => {
    const line = `echo started; ${waitForGoScript}`;
    const { child, output, ended } = start('submit', '--command', line, '--title', 'watched', '--watch');
    await until('the job writes its log', () => output.stdout.includes('started\n') || undefined);
    child.kill('SIGINT');
    assert.equal(await ended, 101, output.stderr);
    const [job] = await jobsTitled('watched');
    assert.ok(job);
    assert.match(output.stderr, new RegExp(`runs on.*bursar job log -f ${job.job_id}`, 's'));
    assert.equal(job.stage, 'RUNNING');
    releaseJob(server, job);
    assert.equal((await me.waitUntilFinished(job)).failed, false);
  });

  test('a sweep that is killed again and again, and run again, gives each combination one job', async () => {
    const input = join(folder, 'sweep');
    mkdirSync(input);
    writeFileSync(join(input, 'run.sh'), '#!/bin/sh\necho $1 $2\n');
    const command = ['--system', 'hpc_one', '--command', 'sbatch run.sh {a} {b}', '--title', 'killed {a} {b}'];
    const parameters = ['--param', 'a=1..6', '--param', 'b=0.1..0.3:0.1'];
    const args = ['sweep', input, ...command, ...parameters, '--runtime', '1m'];
    let kills = 0;
    for (const wanted of [1, 6, 12]) {
      const { child, ended } = start(...args);
      // At any point of the submissions that follow, not always at the same one.
      await until(`${wanted} jobs exist`, async () => (await jobsTitled('killed')).length >= wanted || undefined);
      await sleep(Math.random() * 20);
      child.kill('SIGKILL');
      if ((await ended) === null) kills += 1;
    }
    // On a busy machine one that is nearly done can end before it is killed.
    assert.ok(kills > 0, `${kills} kills`);
    const { code, stdout, stderr } = await bursarOfUser([...args, '--json'], env);
    assert.equal(code, 0, stderr);
    const results = JSON.parse(stdout) as { params: Record<string, string>; job: Job | null }[];
    const jobs = await jobsTitled('killed');
    assert.equal(jobs.length, 18);
    const titles = results.map(({ params: { a, b } }) => `killed ${a} ${b}`);
    assert.deepEqual(jobs.map(({ title }) => title).sort(), titles.sort());
    assert.equal(new Set(results.map(({ job }) => job?.job_id)).size, 18);
    const again = await bursarOfUser(args, env);
    assert.equal(again.code, 0, again.stderr);
    assert.equal((await jobsTitled('killed')).length, 18);
  });
});

describe('the command line, if nobody reads its output,', () => {
  for (const args of ['--help', 'config print', 'frobnicate']) {
    test(`prints no stack trace: ${args}`, async () => {
      const command = `{ ${process.execPath} ${program} ${args}; echo "exit code $?" >&3; } 3>&2 2>&1 | true`;
      const { stdout, stderr } = await runFile('bash', ['-c', command]);
      assert.deepEqual([stdout, stderr], ['', `exit code ${args === 'frobnicate' ? 2 : 0}\n`]);
    });
  }
});
