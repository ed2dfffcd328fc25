import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath, releaseJob, requestCancel, waitForGoScript } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { createSubmitFixture, type SubmitFixture } from './submit-fixture.ts';

const script = '#!/bin/sh\necho "hello $1"\necho problem >&2\nexit $2\n';
const settings = 'system: hpc_one\ncommand: sbatch run.sh {name}\nruntime: 6m\nparams: { name: world }\n';

describe('bursar submit', () => {
  let server: TestServer;
  let me: Caller;
  let fixture: SubmitFixture;
  let folder: string;
  before(async () => {
    server = await startServer();
    me = createCaller(server.url, server.userToken);
    fixture = createSubmitFixture(server.url, server.userToken);
    folder = fixture.folder({
      'run.sh': script,
      'data/in.txt': 'input',
      'data/big.dat': 'ignored',
      '.bursarignore': '*.dat\n',
      '.git/config': 'ignored',
      'bursar.yaml': settings,
    });
  });
  after(async () => {
    fixture.dispose();
    await server.dispose();
  });

  const countJobs = async () => (await me.get<Job[]>('/jobs/')).body.length;
  const newestJob = async () => (await me.get<Job[]>('/jobs/')).body.at(-1);

  test('of a folder with bursar.yaml sends its files, shows the cost and prints the id of the job', async () => {
    const { code, stdout, stderr } = await fixture.run('submit', folder);
    assert.equal(code, 0, stderr);
    const job = await newestJob();
    assert.equal(stdout, `${job?.job_id}\n`);
    assert.deepEqual([job?.project_hpc, job?.runtime, job?.title], ['HPC_ONE', 0.1, folder.split('/').at(-1)]);
    assert.match(stderr, /^costs at most 6 core-min, leaves 5,000 core-h\n.*bursar job log -f /);
    assert.ok(job);
    await me.waitUntilFinished(job);
    const { body: files } = await me.get<{ path: string }[]>(jobPath(job).replace('jobs', 'files'));
    assert.deepEqual(files.map(({ path }) => path).sort(), ['data/in.txt', 'run.sh']);
  });

  test('with --watch follows the job, and exits with its result', async () => {
    const good = await fixture.run('submit', folder, '--watch', '--param', 'name=there');
    assert.deepEqual([good.code, good.stdout], [0, 'hello there\n'], good.stderr);
    assert.match(good.stderr, /SUCCESSFUL, after \d+ s, charged \d+ core-s\n$/);
    const bad = await fixture.run('submit', folder, '--watch', '--command', 'sbatch run.sh {name} 3');
    assert.deepEqual([bad.code, bad.stdout], [100, 'hello world\n'], bad.stderr);
    assert.match(bad.stderr, /problem\n(.*\n)*FAILED, .*exit code 3\n$/);
  });

  test('with --watch --json prints the events of the job and at last the job', async () => {
    const { code, stdout } = await fixture.run('submit', folder, '--watch', '--json');
    assert.equal(code, 0);
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual([lines[0]?.type, lines.at(-2)?.type], ['job.accepted', 'job.ended']);
    assert.deepEqual(lines.at(-1), await newestJob());
  });

  test('with --watch and the key of a job that has ended shows its end', async () => {
    const args = ['submit', folder, '--key', 'watched-again', '--watch'];
    const [first, second] = [await fixture.run(...args), await fixture.run(...args)];
    const end = /SUCCESSFUL, after \d+ s, charged \d+ core-s\n$/;
    assert.match(second.stderr, end);
    assert.deepEqual([second.code, end.exec(second.stderr)?.[0]], [first.code, end.exec(first.stderr)?.[0]]);
  });

  test('with --watch exits with 103 if the job is cancelled', async () => {
    const running = fixture.run('submit', '--command', waitForGoScript, '--title', 'cancelled', '--watch');
    const job = await until('the job runs', async () => {
      const newest = await newestJob();
      return newest?.title === 'cancelled' && newest.stage === 'RUNNING' ? newest : undefined;
    });
    await requestCancel(me, job);
    assert.equal((await running).code, 103);
  });

  test('with --watch detaches after Ctrl-C: the job runs on, and the message says how to come back', async () => {
    const watching = fixture.start('submit', '--command', `echo started; ${waitForGoScript}`, '--watch');
    await watching.waitFor('started\n');
    watching.interrupt();
    assert.equal((await watching.ended).code, 101);
    const job = await newestJob();
    assert.ok(job);
    assert.match(watching.stderr(), new RegExp(`runs on.*bursar job log -f ${job.job_id}`, 's'));
    assert.equal(job.stage, 'RUNNING');
    releaseJob(server, job);
    assert.equal((await me.waitUntilFinished(job)).failed, false);
  });

  test('with --dry-run submits nothing, and prints the cost or the quote', async () => {
    const jobs = await countJobs();
    const text = await fixture.run('submit', folder, '--dry-run', '--nodes', '2', '--cores', '4', '--runtime', '3h');
    assert.deepEqual([text.code, text.stdout], [0, 'costs at most 24 core-h, leaves 4,980 core-h\n']);
    const json = await fixture.run('submit', folder, '--dry-run', '--json');
    assert.equal(JSON.parse(json.stdout).cost, 360);
    assert.equal(await countJobs(), jobs);
  });

  test('refuses a job that the quota does not allow, with exit code 5, before anything is sent', async () => {
    const jobs = await countJobs();
    const large = ['--nodes', '64', '--cores', '128', '--runtime', '48'];
    const { code, stderr } = await fixture.run('submit', folder, '--verbose', ...large);
    assert.equal(code, 5);
    assert.match(stderr, /^error: The job needs 393,000 core-h of time, but .* only [\d,]+ core-h available/m);
    assert.match(stderr, /Use --runtime 0\.6\d?, or fewer nodes or cores/);
    assert.doesNotMatch(stderr, /POST \/jobs/);
    assert.equal(await countJobs(), jobs);
  });

  test('with --key submits once', async () => {
    const jobs = await countJobs();
    const first = await fixture.run('submit', folder, '--key', 'my-key');
    const second = await fixture.run('submit', folder, '--key', 'my-key');
    assert.deepEqual([first.code, second.code, second.stdout], [0, 0, first.stdout], second.stderr);
    assert.equal(await countJobs(), jobs + 1);
    const other = await fixture.run('submit', folder, '--key', 'my-key', '--param', 'name=other');
    assert.equal(other.code, 1);
    assert.match(other.stderr, /used for a different request/);
  });

  test('needs no folder for a command, and passes parameters to a tool', async () => {
    const command = await fixture.run('submit', '--command', 'echo $((6 * 7))', '--watch');
    assert.deepEqual([command.code, command.stdout], [0, '42\n'], command.stderr);
    const input = fixture.folder({ 'main.sh': script, 'run.sh': script, 'job.sh': script });
    const tool = await fixture.run('submit', input, '--tool', 'BASH', '--param', 'arguments=tool', '--watch');
    assert.deepEqual([tool.code, tool.stdout], [0, 'hello tool\n'], tool.stderr);
  });

  for (const [name, options, message] of [
    ['a command that is missing', { system: 'hpc_one' }, /The command is missing\.\nAdd --command/],
    [
      'a system that is missing',
      { input: 'docs' },
      /The system is missing\.\nAdd --system with one of hpc_one, hpc_two/,
    ],
    ['an unknown system', { system: 'hpc_on', command: 'x' }, /no system "hpc_on".\nDid you mean "hpc_one"\?/],
    ['an unknown tool', { system: 'hpc_two', tool: 'BSH' }, /no tool "BSH"\.\nDid you mean "BASH"\?/],
    ['a tool of no system', { tool: 'BSH' }, /The system is missing/],
    ['a command for a tool system', { system: 'hpc_two', command: 'x' }, /runs tools, not commands/],
    ['a tool for a batch system', { system: 'hpc_one', tool: 'BASH' }, /runs commands, not tools/],
    ['a command and a tool', { command: 'x', tool: 'BASH' }, /a command or a tool, not both/],
    ['a folder that does not exist', { input: 'nonexistent' }, /nonexistent does not exist/],
    ['a runtime that is none', { command: 'x', runtime: 'long' }, /--runtime must be a time/],
    ['a number of nodes that is none', { command: 'x', nodes: '0' }, /--nodes must be a whole number/],
    ['an unused parameter', { command: 'x', param: ['a=1'] }, /Nothing uses the parameter a/],
    ['a forbidden option of sbatch', { command: 'sbatch --uid=0 x.sh' }, /--uid is not allowed/],
  ] as const)
    test(`${name} is a usage error in a pipe`, async () => {
      const { code, stdout, stderr } = await fixture.call(
        () => import('../../../src/cli/user/submit/submit.ts'),
        options,
      );
      assert.deepEqual([code, stdout], [2, ''], stderr);
      assert.match(stderr, message);
    });
});
