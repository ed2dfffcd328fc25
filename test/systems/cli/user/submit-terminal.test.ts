import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { createSubmitFixture, type SubmitFixture } from '../../../cli/user/submit-fixture.ts';
import { type Caller, createCaller, type Job } from '../../../support/api.ts';
import { startCuttingProxy } from '../../../support/cutting-proxy.ts';
import { releaseJob, waitForGoScript } from '../../../support/jobs.ts';
import { startServer, type TestServer } from '../../../support/server.ts';
import { openTerminal, type Terminal } from '../../../support/terminal.ts';
import { until } from '../../../support/until.ts';

describe('submit and sweep in a terminal', () => {
  let server: TestServer;
  let me: Caller;
  let fixture: SubmitFixture;
  let terminal: Terminal;
  before(async () => {
    server = await startServer();
    me = createCaller(server.url, server.userToken);
    fixture = createSubmitFixture(server.url, server.userToken);
    terminal = await openTerminal({ env: fixture.env });
  });
  after(async () => {
    await terminal?.close();
    fixture.dispose();
    await server.dispose();
  });

  const findJobs = async (title: string) =>
    (await me.get<Job[]>('/jobs/')).body.filter((job) => job.title.startsWith(title));
  const runningJob = (title: string) =>
    until(`${title} runs`, async () => (await findJobs(title)).find(({ stage }) => stage === 'RUNNING'));

  test('a missing system and command are asked for', async () => {
    const folder = fixture.folder({ 'run.sh': '#!/bin/sh\necho asked\n' });
    await terminal.type(`clear; bursar submit ${folder} --title asked --watch; echo "code $?"`);
    await terminal.waitFor(/1 {2}hpc_one\n.*2 {2}hpc_two\nThe system \(1 to 2\): *$/m);
    await terminal.type('9');
    await terminal.waitFor(/Answer with a number from 1 to 2/);
    await terminal.type('1');
    await terminal.waitFor(/The command, such as "sbatch run.sh": *$/m);
    await terminal.type('sbatch run.sh');
    const screen = await terminal.waitFor(/code \d/);
    assert.match(screen, /costs at most 1 core-h, leaves 5,000 core-h\n/);
    assert.match(screen, /\nasked\n/);
    assert.match(screen, /SUCCESSFUL, after .*\ncode 0/);
  });

  test('Ctrl-C detaches from a job that is watched', async () => {
    await terminal.type(`clear; bursar submit --command 'echo begun; ${waitForGoScript}' --title detached --watch`);
    await terminal.waitFor(/^begun$/m);
    await terminal.press('C-c');
    await terminal.type('echo "code $?"');
    const screen = await terminal.waitFor(/^code \d/m);
    const job = await runningJob('detached');
    assert.match(screen.replaceAll('\n', ''), new RegExp(`runs on.*bursar job log -f ${job.job_id}`));
    assert.match(screen, /^code 101$/m);
    releaseJob(server, job);
    await me.waitUntilFinished(job);
  });

  test('the progress of an upload is shown while it lasts, also after a cut, and then removed', async () => {
    const proxy = await startCuttingProxy(server.url);
    try {
      const folder = fixture.folder({ data: randomBytes(30_000_000) });
      const cuts = [1, 2].map(() => Promise.withResolvers<void>());
      for (const { promise } of cuts) proxy.cutAfter('up', 10_000_000, promise);
      const command = `BURSAR_URL=${proxy.url} bursar submit ${folder} --command true --title shown`;
      await terminal.type(`clear; ${command}; echo "code $?"`);
      for (const [index, cut] of cuts.entries()) {
        await until('the upload waits for a cut', () => proxy.pendingCuts() < cuts.length - index || undefined);
        await terminal.waitFor(/^Uploading {2}\[#+-+\] +\d+ % {2}[\d.]+ MB of 30 MB/m);
        cut.resolve();
      }
      const screen = await terminal.waitFor(/^code \d/m);
      assert.doesNotMatch(screen, /Uploading/);
      assert.match(screen, /^code 0$/m);
      assert.equal((await findJobs('shown')).length, 1);
    } finally {
      await proxy.close();
    }
  });

  // The engine may run two jobs at a time only.
  test('a sweep asks, and shows a table that is redrawn in place', async () => {
    const folder = fixture.folder({ 'run.sh': `#!/bin/sh\n[ $1 = 1 ] || ${waitForGoScript}\n` });
    const args = `--command "sbatch run.sh {a}" --param a=1..2 --title "live {a}" --watch`;
    await terminal.type(`clear; bursar sweep ${folder} ${args}; echo "code $?"`);
    await terminal.waitFor(/Submit 2 jobs\? \[Y\/n\] *$/m);
    await terminal.type('y');
    const during = await terminal.waitFor(/2 combinations: 1 unfinished, 1 succeeded/);
    assert.match(
      during,
      /^a {2}Job +Stage\n1 {2}[0-9A-F-]{36} {2}SUCCESSFUL\n2 {2}[0-9A-F-]{36} {2}(QUEUED|RUNNING)\n/m,
    );
    releaseJob(server, await runningJob('live 2'));
    const screen = await terminal.waitFor(/code \d/);
    assert.match(screen, /2 combinations: 2 succeeded\ncode 0/);
    assert.equal(screen.match(/Stage/g)?.length, 1);
    assert.equal(screen.match(/SUCCESSFUL/g)?.length, 2);
  });
});
