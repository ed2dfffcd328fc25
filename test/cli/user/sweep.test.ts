import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Event } from '#client';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath, requestCancel } from '../../support/jobs.ts';
import { startServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { createSubmitFixture, type SubmitFixture } from './submit-fixture.ts';

describe('bursar sweep', () => {
  let server: TestServer;
  let me: Caller;
  let fixture: SubmitFixture;
  before(async () => {
    server = await startServer();
    me = createCaller(server.url, server.userToken);
    fixture = createSubmitFixture(server.url, server.userToken);
  });
  after(async () => {
    fixture.dispose();
    await server.dispose();
  });

  const jobsTitled = async (beginning: string) =>
    (await me.get<Job[]>('/jobs/')).body.filter(({ title }) => title.startsWith(beginning));

  /** The most jobs that were unfinished at the same time, by the order of their events. */
  async function maxUnfinished(beginning: string): Promise<number> {
    const { events } = (await me.get<{ events: Event[] }>('/events/?limit=1000')).body;
    let [unfinished, max] = [0, 0];
    for (const { type } of events.filter((event) => event.job?.title.startsWith(beginning))) {
      if (type === 'job.accepted') unfinished += 1;
      if (type === 'job.ended') unfinished -= 1;
      max = Math.max(max, unfinished);
    }
    return max;
  }

  test('keeps at most --max-running jobs unfinished, collects results, and retries failed jobs', async () => {
    const script = '#!/bin/sh\necho "$1" > "out put.txt"\n[ "$1" != 3 ] || [ -e ok ] || exit 4\n';
    const folder = fixture.folder({ 'run.sh': script, 'bursar.yaml': 'system: hpc_one\nruntime: 1m\ntitle: c {a}\n' });
    const results = join(folder, '..', 'results');
    const args = ['sweep', folder, '--command', 'sbatch run.sh {a}', '--param', 'a=1..5'];
    const { code, stdout, stderr } = await fixture.run(...args, '--max-running', '2', '--collect', results);
    assert.equal(code, 100, stderr);
    const max = await maxUnfinished('c ');
    assert.ok(max >= 1 && max <= 2, `${max} unfinished jobs`);
    assert.match(stderr, /5 combinations: 4 succeeded, 1 failed\n$/);
    assert.match(stdout, /^a\tjob\tstage\tresults\n1\t\S+\tSUCCESSFUL\t.*a=1\n/);
    assert.match(stdout, /\n3\t\S+\tFAILED\t-\n/);
    assert.deepEqual(readdirSync(results).sort(), ['a=1', 'a=2', 'a=4', 'a=5']);
    assert.equal(readFileSync(join(results, 'a=4', 'out put.txt'), 'utf8'), '4\n');

    writeFileSync(join(folder, 'ok'), '');
    const retried = await fixture.run(...args, '--collect', results, '--retry-failed');
    assert.equal(retried.code, 0, retried.stderr);
    assert.match(retried.stderr, /1 job costs at most/);
    assert.equal((await jobsTitled('c ')).length, 6);
    assert.equal(readFileSync(join(results, 'a=3', 'out put.txt'), 'utf8'), '3\n');
  });

  test('is extended by more values, and finds the job of an attempt that was not recorded', async () => {
    const folder = fixture.folder({ 'run.sh': '#!/bin/sh\ntrue\n' });
    const args = ['sweep', folder, '--command', 'sbatch run.sh {a}', '--title', 'e {a}', '--runtime', '1m'];
    assert.equal((await fixture.run(...args, '--param', 'a=1,2')).code, 0);
    // The last record is lost, and the files have changed since.
    const [name = ''] = readdirSync(join(folder, '.bursar'));
    const journal = join(folder, '.bursar', name);
    const lines = readFileSync(journal, 'utf8').trimEnd().split('\n');
    writeFileSync(journal, `${lines.slice(0, -1).join('\n')}\n`);
    writeFileSync(join(folder, 'run.sh'), 'echo changed\n');
    const { code, stderr } = await fixture.run(...args, '--param', 'a=1,2,3');
    assert.equal(code, 0, stderr);
    assert.match(stderr, /3 combinations: 1 waiting, /);
    assert.equal((await jobsTitled('e ')).length, 3);
  });

  test('exits with 103 if a job was cancelled, and with 101 after Ctrl-C', async () => {
    const folder = fixture.folder({ 'run.sh': '#!/bin/sh\nwhile [ -d "$PWD" ]; do sleep 0.05; done\n' });
    const args = ['sweep', folder, '--command', 'sbatch run.sh {a}', '--title', 'w {a}', '--param', 'a=1', '--watch'];
    const first = fixture.start(...args, '--runtime', '1m');
    const job = await until('the job runs', async () =>
      (await jobsTitled('w ')).find(({ stage }) => stage === 'RUNNING'),
    );
    first.interrupt();
    assert.equal((await first.ended).code, 101, first.stderr());
    assert.match(first.stderr(), /run on\. Run the same command again/);
    assert.equal((await me.get<Job>(jobPath(job))).body.stage, 'RUNNING');
    const second = fixture.run(...args, '--runtime', '1m');
    await requestCancel(me, job);
    assert.equal((await second).code, 103);
    assert.equal((await jobsTitled('w ')).length, 1);
  });

  for (const [name, options, message] of [
    ['no parameter', {}, /A sweep needs parameters/],
    ['a parameter that nothing uses', { param: ['b=1'] }, /Nothing uses the parameter b/],
    [
      'a parameter that only the title uses',
      { param: ['a=1', 'b=1,2'], title: '{b}', dryRun: true },
      /Nothing uses the parameter b\. Write \{b\} into the command/,
    ],
    [
      'a parameter that does not reach the tool',
      { param: ['a=1,2'], command: undefined, tool: 'PYTHON3', title: '{a}', dryRun: true },
      /Nothing uses the parameter a\. The tool PYTHON3 has the parameters arguments: .*--param arguments="\{a\}"/,
    ],
    ['a start file that is missing', { param: ['a=1,2'], command: 'sbatch {a}.sh' }, /lacks 1\.sh/],
    ['a limit that is no number', { param: ['a=1'], maxRunning: 'x' }, /--max-running must be a whole number/],
  ] as const)
    test(`with ${name} submits nothing, and creates no journal`, async () => {
      const folder = fixture.folder({ 'run.sh': '#!/bin/sh\ntrue\n' });
      const load = () => import('../../../src/cli/user/sweep/sweep.ts');
      const { code, stderr } = await fixture.call(load, { input: folder, command: 'sbatch run.sh {a}', ...options });
      assert.ok(code === 1 || code === 2, stderr);
      assert.match(stderr, message);
      assert.deepEqual(readdirSync(folder), ['run.sh']);
    });

  test('with --dry-run shows the cost of all jobs and submits nothing', async () => {
    const folder = fixture.folder({ 'run.sh': '#!/bin/sh\ntrue\n' });
    const args = ['--command', 'sbatch run.sh {a}', '--param', 'a=1..10', '--runtime', '1h', '--title', 'dry'];
    const { code, stderr } = await fixture.run('sweep', folder, ...args, '--dry-run');
    assert.equal(code, 0, stderr);
    assert.match(stderr, /10 jobs cost at most 10 core-h, leaves 4,9(89\.\d|90) core-h/);
    assert.deepEqual([readdirSync(folder), (await jobsTitled('dry')).length], [['run.sh'], 0]);
  });
});
